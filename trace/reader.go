// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/profinfer/profinfer/internal/safeopen"
	"github.com/profinfer/profinfer/trace/internal/scan"
)

// Block is one block of a trace. Of the fields after Count, those of its type are set.
//
// The reader owns the slices, which are valid until its next call; what the pointers refer to stays valid.
type Block struct {
	Type        Type
	Segment     bool  // a segment begins here: a reader may start here too
	Offset      int64 // in the file
	First, Last int64 // of its events, ns; for a definition the time of writing
	Count       int

	Meta      *Meta
	Process   *Process
	Threads   []Thread // added to earlier ones, or replacing them
	Shape     *Shape
	Hits      []Hit
	Marks     []Mark
	StepSeqs  []StepSeq
	Sched     []Sched
	Samples   []Sample // the caller owns them
	Faults    []Fault  // the caller owns them
	Memory    *Memory
	Experts   []Experts // the caller owns them
	Loss      *Loss
	Exit      *Exit
	Watch     *Watch
	CPU       *CPUState
	End       *End
	Watermark int64 // of a drain: all events before this time precede this block
}

// Reader reads a trace block by block, in the order of the file. It must not be used by several goroutines at
// once.
//
// Damage does not end it: an incomplete block is reported by [Reader.Problems] and skipped, and reading
// continues at the next complete one.
type Reader struct {
	// Repeats also returns definitions that the file repeats. Without it a definition is returned once.
	Repeats bool
	// Skip, if set, is asked about each block of records, by the times of its first and last event. Those
	// that it skips are passed over unread, as [Reader.Want] does it.
	Skip func(t Type, first, last int64) bool

	in     *scan.Input
	at     atomic.Int64 // offset in the file of the block being read
	f      *os.File
	name   string
	header FileHeader
	want   uint64 // one bit per type

	dec  *zstd.Decoder
	raw  []byte
	hits hitDecoder
	mark markDecoder
	seqs seqDecoder
	sch  schedDecoder

	meta     *Meta
	seen     map[sameKey]struct{}
	segment  bool // a segment began with a block that was skipped
	nextSeq  uint32
	seqKnown bool
	unknown  map[Type]bool
	wasted   int64 // bytes checked in vain

	problems []string
	more     int // problems beyond those kept
	torn     string
}

// sameKey identifies repeated definitions.
type sameKey struct {
	t           Type
	sum         uint32
	raw, stored uint32
}

const maxProblems = 64

// Open opens the trace path.
func Open(path string) (*Reader, error) {
	f, err := safeopen.Input(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("no trace: %w; record one with: profinfer record -o %s -- COMMAND", err, path)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("cannot open the trace: %w; recordings are their owner's alone: read it as that user, or with sudo, or have its owner given it (chown, chmod)", err)
	case err != nil:
		return nil, fmt.Errorf("cannot open the trace: %w", err)
	}
	if st, err := f.Stat(); err == nil && st.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s is a directory, %w; name the file that profinfer record wrote", path,
			ErrNotTrace)
	}
	r, err := newReader(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.f = f
	return r, nil
}

// NewReader reads a trace from in. If in is an io.Seeker, it starts at in's offset 0, and unwanted blocks are
// skipped by seeking.
func NewReader(in io.Reader) (*Reader, error) {
	name := "the input"
	if f, ok := in.(interface{ Name() string }); ok {
		name = f.Name()
	}
	return newReader(in, name)
}

func newReader(in io.Reader, name string) (*Reader, error) {
	r := &Reader{in: scan.New(in), name: name, want: ^uint64(0), seen: map[sameKey]struct{}{}}
	b := r.in.Peek(fileHeaderSize)
	if r.in.Err() != nil {
		return nil, fmt.Errorf("reading %s: %w", name, r.in.Err())
	}
	if err := r.begin(b); err != nil {
		return nil, err
	}
	return r, nil
}

// begin checks the file's header.
func (r *Reader) begin(b []byte) error {
	switch {
	case len(b) == 0:
		return fmt.Errorf("%s is an %w: its recording ended before anything was written; record it again",
			r.name, ErrEmpty)
	case len(b) < len(fileMagic) || string(b[:len(fileMagic)]) != fileMagic:
		return fmt.Errorf("%s is %w (%s); name a file that profinfer record wrote", r.name, ErrNotTrace,
			looksLike(b))
	case len(b) < fileHeaderSize:
		return fmt.Errorf("%s is an %w: it is truncated in its first %d bytes; record it again", r.name, ErrEmpty,
			fileHeaderSize)
	}
	h, ok := parseFileHeader(b)
	switch {
	case !ok:
		r.problem("the file's header is damaged; it is read as version %d.%d", Major, Minor)
		h = FileHeader{Major: Major, Minor: Minor}
	case h.Major > Major || h.Major == 0:
		return fmt.Errorf("%s is a %w: its format is %d.%d, this profinfer reads up to %d; update profinfer",
			r.name, ErrNewer, h.Major, h.Minor, Major)
	case h.Incompat&^knownIncompat != 0:
		return fmt.Errorf("%s is a %w: it needs features %#x that this profinfer does not know; update profinfer",
			r.name, ErrNewer, h.Incompat&^knownIncompat)
	}
	r.header = h
	r.in.Skip(fileHeaderSize)
	r.seqKnown, r.nextSeq = true, 0
	return nil
}

// looksLike describes, for an error message, how a file that is not a trace begins.
func looksLike(b []byte) string {
	for _, k := range [...]struct{ magic, what string }{
		{"\x7fELF", "it is a program"}, {"PERFILE2", "it is a recording of perf"}, {"\x28\xb5\x2f\xfd",
			"it is compressed with zstd: unpack it first"},
		{"\x1f\x8b", "it is compressed with gzip: unpack it first"}, {"PAR1",
			"it is a Parquet file"}, {"GGUF", "it is a model"},
	} {
		if len(b) >= len(k.magic) && string(b[:len(k.magic)]) == k.magic {
			return k.what
		}
	}
	return fmt.Sprintf("it begins with %q", b[:min(len(b), 16)])
}

// Close releases the reader and the file that Open opened.
func (r *Reader) Close() error {
	if r.dec != nil {
		r.dec.Close()
		r.dec = nil
	}
	if r.f != nil {
		return r.f.Close()
	}
	return nil
}

// Header returns the file's header.
func (r *Reader) Header() FileHeader { return r.header }

// Meta returns the meta block that Next returned last, nil before the first. A trace begins with it.
func (r *Reader) Meta() *Meta { return r.meta }

// Progress returns how many bytes of how many have been read; the number is negative if it is unknown. It may be
// called from any goroutine.
func (r *Reader) Progress() (read, of int64) { return r.at.Load(), r.in.Size() }

// Want limits Next to blocks of these types; with none, to no type at all. The others are skipped unread, so
// damage in them goes unnoticed.
func (r *Reader) Want(types ...Type) {
	r.want = 0
	for _, t := range types {
		if t < 64 {
			r.want |= 1 << t
		}
	}
}

// Torn describes what was dropped at the end of the file because its last block is incomplete; empty if
// nothing was, or if the end was not reached yet.
func (r *Reader) Torn() string { return r.torn }

// Problems describes what was found wrong so far: damage, gaps, and the result of Torn.
func (r *Reader) Problems() []string {
	ps := append([]string(nil), r.problems...)
	if r.more > 0 {
		ps = append(ps, fmt.Sprintf("and %d more", r.more))
	}
	return ps
}

func (r *Reader) problem(format string, args ...any) {
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// Next returns the next block; io.EOF at the end. Other errors come from the input.
func (r *Reader) Next() (Block, error) {
	b, err := r.next()
	if b.Meta != nil {
		r.meta = b.Meta
	}
	return b, err
}

func (r *Reader) next() (Block, error) {
	for {
		h, off, err := r.nextHeader()
		if err != nil {
			return Block{}, err
		}
		if b, ok := r.block(&h, off); ok {
			return b, nil
		}
	}
}

// nextHeader goes to the next block with a complete header.
func (r *Reader) nextHeader() (h blockHeader, off int64, err error) {
	damaged := false // what was skipped
	from := r.in.Offset()
	for {
		b := r.in.Peek(blockHeaderSize)
		r.at.Store(r.in.Offset())
		if r.in.Err() != nil {
			return h, 0, fmt.Errorf("reading %s at byte %d: %w", r.name, r.in.Offset(), r.in.Err())
		}
		if h.parse(b) && h.Stored <= maxRaw && h.Raw <= maxRaw {
			break
		}
		if len(b) == 0 {
			if damaged {
				r.tear(from)
			}
			return h, 0, io.EOF
		}
		damaged = true
		if r.in.Skip(1); !r.in.Find(blockMagic) && r.in.Err() == nil {
			r.tear(from)
			return h, 0, io.EOF
		}
	}
	off = r.in.Offset()
	switch {
	case damaged:
		r.problem("bytes %d to %d are damaged and were left out", from, off-1)
	case r.seqKnown && h.Seq != r.nextSeq:
		r.problem("%d blocks are missing before byte %d", h.Seq-r.nextSeq, off)
	}
	r.seqKnown, r.nextSeq = true, h.Seq+1
	return h, off, nil
}

// tear notes that the file is not a complete block from offset from on.
func (r *Reader) tear(from int64) {
	if r.torn != "" {
		return
	}
	r.torn = fmt.Sprintf("the recording is truncated in the middle of a block: its last %d bytes were dropped",
		r.in.Offset()-from)
	r.problem("%s", r.torn)
}

func (r *Reader) wants(t Type) bool { return r.want == ^uint64(0) || t < 64 && r.want&(1<<t) != 0 }

// isRecords reports whether blocks of a type hold events, and not what defines them.
func isRecords(t Type) bool {
	switch t {
	case TypeHits, TypeMarks, TypeStepSeqs, TypeSched, TypeSamples, TypeFaults, TypeExperts:
		return true
	}
	return false
}

// block reads the block of h at off, where the input is. It returns false if the block is unwanted or
// incomplete; the input is then where reading continues.
func (r *Reader) block(h *blockHeader, off int64) (Block, bool) {
	known := h.Type >= TypeMeta && h.Type <= TypeEnd || h.Type == TypeWatch || h.Type == TypeSamples ||
		h.Type == TypeFaults || h.Type == TypeMemory || h.Type == TypeCPU || h.Type == TypeExperts
	if !known && h.Type != typeIndex && h.Type != typeTrailer && !r.unknown[h.Type] {
		if r.unknown == nil {
			r.unknown = map[Type]bool{}
		}
		if len(r.unknown) < maxProblems {
			r.unknown[h.Type] = true
			r.problem("blocks of %v were left out: they are of a newer profinfer", h.Type)
		}
	}
	if !r.wants(h.Type) || r.Skip != nil && isRecords(h.Type) && r.Skip(h.Type, h.First, h.Last) {
		r.segment = r.segment || h.Flags&flagSegment != 0 && r.wants(h.Type)
		if n := r.in.Skip(blockHeaderSize + int64(h.Stored)); n < blockHeaderSize+int64(h.Stored) &&
			r.in.Err() == nil {
			r.tear(off)
		}
		return Block{}, false
	}
	b := r.in.Peek(blockHeaderSize + int(h.Stored))
	if len(b) < blockHeaderSize+int(h.Stored) {
		// The end, or else a block that was not completely written with others after it.
		r.in.Skip(blockHeaderSize)
		r.damaged(off, int64(len(b)))
		return Block{}, false
	}
	stored := b[blockHeaderSize:]
	if checksum(stored) != h.Sum {
		if r.wasted < 256<<20 {
			r.wasted += int64(h.Stored)
			r.in.Skip(blockHeaderSize) // complete blocks may be inside what was taken for its payload
		} else {
			r.in.Skip(int64(len(b)))
		}
		r.problem("the %v block at byte %d is damaged and was left out", h.Type, off)
		r.resync()
		return Block{}, false
	}
	key := sameKey{h.Type, h.Sum, h.Raw, h.Stored}
	_, seen := r.seen[key]
	if !known || seen && h.Flags&flagRepeat != 0 && !r.Repeats {
		r.segment = r.segment || h.Flags&flagSegment != 0 // the next one begins it
		r.in.Skip(int64(len(b)))
		return Block{}, false
	}
	blk := Block{Type: h.Type, Segment: r.segment || h.Flags&flagSegment != 0, Offset: off, First: h.First,
		Last: h.Last, Count: int(h.Count)}
	err := r.decode(h, stored, &blk)
	r.in.Skip(int64(len(b)))
	if err != nil {
		r.problem("the %v block at byte %d cannot be read (%v) and was left out", h.Type, off, err)
		return Block{}, false
	}
	r.segment = false
	switch h.Type {
	case TypeMeta, TypeProcess, TypeThreads, TypeShape:
		r.seen[key] = struct{}{}
	}
	return blk, true
}

// damaged handles a block at off of which only n bytes exist.
func (r *Reader) damaged(off, n int64) {
	if r.in.Err() != nil {
		return // the next call reports it
	}
	if r.resync() {
		r.problem("the block at byte %d was not written to its end and was left out", off)
		return
	}
	if r.in.Err() == nil {
		r.tear(off)
	}
}

// resync goes to the next complete header; at the end of the input it returns false.
func (r *Reader) resync() bool {
	r.seqKnown = false
	var h blockHeader
	for r.in.Find(blockMagic) {
		if b := r.in.Peek(blockHeaderSize); h.parse(b) {
			return true
		}
		r.in.Skip(1)
	}
	return false
}

// unpack returns the payload of a block. It is valid until the next call.
func (r *Reader) unpack(h *blockHeader, stored []byte) ([]byte, error) {
	switch h.Codec {
	case codecNone:
		if h.Raw != h.Stored {
			return nil, errors.New("its lengths differ")
		}
		return stored, nil
	case codecZstd:
	default:
		return nil, fmt.Errorf("its codec %d is of a newer profinfer", h.Codec)
	}
	if r.dec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxRaw), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		r.dec = dec
	}
	if cap(r.raw) < int(h.Raw) {
		r.raw = make([]byte, 0, h.Raw)
	}
	p, err := r.dec.DecodeAll(stored, r.raw[:0:h.Raw])
	if err != nil {
		return nil, err
	}
	if len(p) != int(h.Raw) {
		return nil, errors.New("its length is wrong")
	}
	return p, nil
}
