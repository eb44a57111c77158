// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ringPages = 128 // data pages in each CPU's ring; about 250 records of 4 KiB pages
	// Events of tracked processes are needed at once: a library must be probed before it is used. Events of
	// others wake the consumer as well; if they keep doing so (a build of something large) the consumer waits
	// a little before it reads, up to this long.
	maxGather = 3 * time.Millisecond
	minGather = 200 * time.Microsecond
	// settle: an event older than this has reached its ring, so nothing earlier can still turn up in another
	// CPU's ring.
	settle  = 100 * time.Microsecond
	recheck = 50 * time.Millisecond // for processes whose main thread has ended
	hotplug = 2 * time.Second       // how often the list of online CPUs is checked
)

// ErrNotPermitted means that the kernel refused for lack of a privilege.
var ErrNotPermitted = errors.New("not permitted")

// perfSource reads the kernel's side-band events of all processes: one dummy software event and one ring per
// CPU. Packages for perf events are either no longer maintained or read only what BPF programs write.
type perfSource struct {
	w     *Watcher
	epoll int
	wake  int // eventfd
	rings map[int]*perfRing
	arena []byte // raw records of one round
	held  []rawRecord
	lost  uint64
}

type perfRing struct {
	fd   int
	mem  []byte
	page *unix.PerfEventMmapPage
	data []byte
}

// rawRecord is a record copied from a ring.
type rawRecord struct {
	time int64
	data []byte
}

// New starts a watcher that gets events from the kernel as they happen. It needs CAP_PERFMON (or root, or
// kernel.perf_event_paranoid of 0 or less). If refused, the error says what is missing, and [NewPolling] is
// the alternative.
func New() (*Watcher, error) {
	s := &perfSource{rings: map[int]*perfRing{}, epoll: -1, wake: -1}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	w := newWatcher()
	s.w = w
	w.stop = func() {
		one := [8]byte{1}
		_, _ = unix.Write(s.wake, one[:]) // an eventfd accepts it unless closed
	}
	go s.run()
	return w, nil
}

func (s *perfSource) open() error {
	var err error
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("watching processes: epoll: %w", err)
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("watching processes: eventfd: %w", err)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(s.wake)}
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, s.wake, &ev); err != nil {
		return fmt.Errorf("watching processes: epoll: %w", err)
	}
	cpus, err := onlineCPUs()
	if err != nil {
		return err
	}
	if _, err = s.openCPUs(cpus); err != nil {
		return err
	}
	if len(s.rings) == 0 {
		return errors.New("watching processes: no CPU is online, says /sys/devices/system/cpu/online")
	}
	return nil
}

// openCPUs opens the events of CPUs that are not open yet. It reports whether there were any.
func (s *perfSource) openCPUs(cpus []int) (fresh bool, err error) {
	for _, cpu := range cpus {
		if s.rings[cpu] != nil {
			continue
		}
		r, err := openRing(cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // went offline just now
		}
		if err != nil {
			return fresh, err
		}
		ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET&0xffffffff, Fd: int32(r.fd)}
		if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, r.fd, &ev); err != nil {
			r.close()
			return fresh, fmt.Errorf("watching processes: epoll: %w", err)
		}
		s.rings[cpu] = r
		fresh = true
	}
	return fresh, nil
}

func openRing(cpu int) (*perfRing, error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec |
			unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitWatermark | unix.PerfBitUseClockID |
			unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		Wakeup:  1, // byte
		Clockid: unix.CLOCK_BOOTTIME,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, perfError(cpu, err)
	}
	r := &perfRing{fd: fd}
	page := os.Getpagesize()
	for n := ringPages; ; n /= 2 {
		r.mem, err = unix.Mmap(fd, 0, (1+n)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil || n == 1 {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("watching processes: the kernel locks no more memory for perf events (kernel.perf_event_mlock_kb): %w", ErrNotPermitted)
		}
		return nil, fmt.Errorf("watching processes: mapping the ring of CPU %d: %w", cpu, err)
	}
	r.page = (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.mem[0]))
	r.data = r.mem[page:]
	return r, nil
}

// perfError explains why perf_event_open was refused.
func perfError(cpu int, err error) error {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		paranoid := "unknown"
		if b, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); err == nil {
			paranoid = strings.TrimSpace(string(b))
		}
		return fmt.Errorf("watching all processes needs root or CAP_PERFMON, or kernel.perf_event_paranoid of 0 or less (it is %s; above 2, some distributions ask for CAP_SYS_ADMIN; a container's seccomp profile can refuse perf_event_open as well): %w: %w", paranoid, ErrNotPermitted, err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("watching processes: this kernel has no perf events (CONFIG_PERF_EVENTS): %w", err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("watching processes: too many open files for one event a CPU (ulimit -n): %w", err)
	}
	return fmt.Errorf("watching processes: perf_event_open on CPU %d: %w", cpu, err)
}

// onlineCPUs reads /sys/devices/system/cpu/online.
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("which CPUs are online: %w", err)
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads a list like "0-3,8", in the kernel's order.
func parseCPUs(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		a, b, isRange := strings.Cut(part, "-")
		if !isRange {
			b = a
		}
		from, err1 := strconv.ParseUint(a, 10, 16)
		to, err2 := strconv.ParseUint(b, 10, 16)
		if n := len(out); err1 != nil || err2 != nil || from > to || n > 0 && int(from) <= out[n-1] {
			return nil, fmt.Errorf("cannot read the list of CPUs %q", s)
		}
		for c := from; c <= to; c++ {
			out = append(out, int(c))
		}
	}
	return out, nil
}

func (r *perfRing) close() {
	if r.mem != nil {
		_ = unix.Munmap(r.mem) // an invalid mapping needs no handling
	}
	unix.Close(r.fd)
}

func (s *perfSource) close() {
	for _, r := range s.rings {
		r.close()
	}
	for _, fd := range []int{s.epoll, s.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (s *perfSource) run() {
	defer close(s.w.ended)
	defer s.close() // the kernel waits for a grace period: who reads the events need not
	defer close(s.w.events)
	var evs [32]unix.EpollEvent
	wait := hotplug
	looked := time.Now()
	var gather time.Duration
	for {
		asked := time.Now()
		n, err := unix.EpollWait(s.epoll, evs[:], int(wait/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			s.w.deliver([]Event{{Time: boottime(), Kind: EventLost}})
			return
		}
		if n > 0 && gather > 0 {
			select {
			case <-s.w.done:
			case <-time.After(gather):
			}
		}
		select {
		case <-s.w.done:
			return
		default:
		}
		if time.Since(looked) >= hotplug {
			looked = time.Now()
			s.followCPUs()
		}
		out, again := s.round()
		mine := len(out) > 0
		for tries := 0; len(s.held) > 0 && tries < 3; tries++ {
			if !s.w.deliver(out) {
				return
			}
			time.Sleep(settle)
			out, again = s.round()
			mine = mine || len(out) > 0
		}
		if !s.w.deliver(out) {
			return
		}
		wait = hotplug
		if again {
			wait = recheck
		}
		if len(s.held) > 0 {
			wait = time.Millisecond
		}
		switch {
		case mine || time.Since(asked) > 10*maxGather:
			gather = 0
		default:
			gather = min(max(2*gather, minGather), maxGather)
		}
	}
}

// followCPUs closes the rings of CPUs that went offline and opens those of new ones.
func (s *perfSource) followCPUs() {
	cpus, err := onlineCPUs()
	if err != nil {
		return
	}
	online := map[int]bool{}
	for _, c := range cpus {
		online[c] = true
	}
	for c, r := range s.rings {
		if !online[c] {
			s.drain(r)
			r.close()
			delete(s.rings, c)
		}
	}
	// What happened on a new CPU before its ring was open was missed; if it cannot be opened, nothing there
	// will be seen either.
	if fresh, err := s.openCPUs(cpus); fresh || err != nil {
		s.lost++
	}
}

// round reads all rings and returns what happened to tracked processes; again means that some process must be
// checked again soon.
func (s *perfSource) round() (out []Event, again bool) {
	now := boottime()
	for _, r := range s.rings {
		s.drain(r)
	}
	slices.SortStableFunc(s.held, func(a, b rawRecord) int { return cmp.Compare(a.time, b.time) })
	ready := sort.Search(len(s.held), func(i int) bool { return s.held[i].time > now-int64(settle) })
	s.w.mu.Lock()
	for _, rec := range s.held[:ready] {
		if ev, ok := s.decode(rec); ok {
			out = s.w.handle(ev, out)
		}
	}
	if s.lost > 0 {
		out = s.w.handle(Event{Time: now, Kind: EventLost, Lost: s.lost}, out)
		s.lost = 0
	}
	out, again = s.w.reap(out)
	s.w.mu.Unlock()
	// Keep the rest; the arena can be reused once nothing points into it.
	rest := s.held[ready:]
	if len(rest) == 0 {
		s.arena = s.arena[:0]
		s.held = s.held[:0]
	} else {
		s.held = append(s.held[:0:0], rest...)
		for i := range s.held {
			s.held[i].data = bytes.Clone(s.held[i].data)
		}
		s.arena = s.arena[:0]
	}
	return out, again
}

// drain copies a ring's records. perf_event_open(2): a header of type (4 bytes), misc (2), size (2); with
// sample_id_all every record ends with the fields of sample_type: pid and tid, time, cpu, 8 bytes each.
func (s *perfSource) drain(r *perfRing) {
	head := atomic.LoadUint64(&r.page.Data_head)
	tail := r.page.Data_tail
	size := uint64(len(r.data))
	if head-tail > size {
		s.lost++
		tail = head
	}
	for head-tail >= 8 {
		var h [8]byte
		copyRing(h[:], r.data, tail)
		n := uint64(binary.LittleEndian.Uint16(h[6:]))
		if n < 8 || n > head-tail {
			s.lost++ // out of step: nothing after this can be trusted
			tail = head
			break
		}
		if n >= 8+24 {
			at := len(s.arena)
			s.arena = append(s.arena, make([]byte, n)...)
			data := s.arena[at : at+int(n) : at+int(n)]
			copyRing(data, r.data, tail)
			s.held = append(s.held, rawRecord{int64(binary.LittleEndian.Uint64(data[n-16:])), data})
		}
		tail += n
	}
	atomic.StoreUint64(&r.page.Data_tail, tail)
}

// copyRing copies from a ring whose length is a power of two, wrapping at its end.
func copyRing(dst, ring []byte, at uint64) {
	at &= uint64(len(ring)) - 1
	n := copy(dst, ring[at:])
	copy(dst[n:], ring)
}

const commExec = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC

// decode reads a record if it can matter to a tracked process.
func (s *perfSource) decode(rec rawRecord) (Event, bool) {
	le := binary.LittleEndian
	d := rec.data
	body := d[8 : len(d)-24]
	ev := Event{Time: rec.time}
	u32 := func(at int) int { return int(int32(le.Uint32(body[at:]))) }
	switch typ := le.Uint32(d); typ {
	case unix.PERF_RECORD_MMAP2:
		// pid, tid, addr, len, pgoff, maj, min, ino, ino_generation, prot, flags, filename
		if len(body) < 64 || s.w.tracked[u32(0)] == nil {
			return ev, false
		}
		ev.Kind, ev.PID, ev.TID = EventMmap, u32(0), u32(4)
		ev.Start, ev.Len, ev.Offset = le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:])
		ev.Dev = unix.Mkdev(le.Uint32(body[32:]), le.Uint32(body[36:]))
		ev.Inode = le.Uint64(body[40:])
		// the kernel's marker of a file without a name
		ev.Path, ev.Deleted = strings.CutSuffix(cString(body[64:]), " (deleted)")
	case unix.PERF_RECORD_COMM:
		if len(body) < 8 || s.w.tracked[u32(0)] == nil {
			return ev, false
		}
		ev.Kind, ev.PID, ev.TID, ev.Comm = EventComm, u32(0), u32(4), cString(body[8:])
		if le.Uint16(d[4:])&commExec != 0 {
			ev.Kind = EventExec
		}
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT: // pid, ppid, tid, ptid, time
		if len(body) < 24 {
			return ev, false
		}
		ev.PID, ev.TID = u32(0), u32(8)
		switch {
		case typ == unix.PERF_RECORD_EXIT:
			ev.Kind = EventThreadExit
		case ev.PID == ev.TID:
			ev.Kind, ev.PPID = EventFork, u32(4)
		default:
			ev.Kind = EventThread
		}
	case unix.PERF_RECORD_LOST: // id, lost
		if len(body) < 16 {
			return ev, false
		}
		ev.Kind, ev.Lost = EventLost, le.Uint64(body[8:])
	default:
		return ev, false
	}
	// A process outside this PID namespace has no PID here.
	return ev, ev.Kind == EventLost || ev.PID > 0
}

// cString is the part of b before the terminating 0.
func cString(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}
