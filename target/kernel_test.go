// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// needsRoot skips a test that the system at hand cannot run, or fails it where
// PROFINFER_REQUIRE_BPF says that it must be able to.
func needsRoot(t *testing.T, why string, args ...any) {
	t.Helper()
	if os.Getenv("PROFINFER_REQUIRE_BPF") == "1" {
		t.Fatalf("PROFINFER_REQUIRE_BPF=1, but "+why, args...)
	}
	t.Skipf(why, args...)
}

// permitted skips a test where a command that starts so does not run.
func permitted(t *testing.T, what string, attr *syscall.SysProcAttr, argv ...string) {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.SysProcAttr = attr
	if out, err := c.CombinedOutput(); err != nil {
		needsRoot(t, "needs root: %s is not permitted here (%v) %s", what, err, bytes.TrimSpace(out))
	}
}

// TestKernelRefuses asks the running kernel which instructions it puts a uprobe on, by
// probing a file that this process has mapped, and compares with Class.
func TestKernelRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("places some eighty probes, which takes seconds")
	}
	b, err := os.ReadFile("/sys/bus/event_source/devices/uprobe/type")
	if err != nil {
		needsRoot(t, "this kernel has no uprobes through perf events: %v", err)
	}
	typ, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	code := probeCorpus(t)
	const slot = 16
	image := make([]byte, (len(code)*slot+2*4096)&^4095)
	for i, c := range code {
		copy(image[i*slot:], c)
	}
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, image, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, len(image), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		needsRoot(t, "cannot map a file for execution: %v", err)
	}
	defer unix.Munmap(mem)
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	// Placing and removing a probe waits for the kernel: many at once.
	errs := make([]error, len(code))
	var wg sync.WaitGroup
	next := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range next {
				attr := unix.PerfEventAttr{Type: uint32(typ), Ext1: uint64(uintptr(unsafe.Pointer(name))),
					Ext2: uint64(i * slot)}
				attr.Size = uint32(unsafe.Sizeof(attr))
				fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
				if errs[i] = err; err == nil {
					unix.Close(fd)
				}
			}
		})
	}
	for i := range code {
		next <- i
	}
	close(next)
	wg.Wait()
	runtime.KeepAlive(name)
	refused := 0
	for i, c := range code {
		in, err := Decode(Arch(runtime.GOARCH), c, uint64(i*slot))
		if err != nil {
			t.Fatalf("% x: %v", c, err)
		}
		const enotsupp = unix.Errno(524) // of the kernel's own
		switch err := errs[i]; {
		case err == nil:
			// What is refused here but not there is so on purpose, where the kernel would
			// get it wrong, or was not so in older kernels.
			if in.Class == ClassRefused && !refusedOnPurpose(in) {
				t.Errorf("% x (%s): the kernel takes it", c, in.Text(nil))
			}
		case errors.Is(err, unix.ENOEXEC): // no instruction that this kernel knows
		case errors.Is(err, enotsupp), errors.Is(err, unix.EINVAL) && runtime.GOARCH == "arm64":
			refused++
			if in.Class != ClassRefused {
				t.Errorf("% x (%s): class %v, but the kernel refuses it: %v", c, in.Text(nil), in.Class, err)
			}
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			needsRoot(t, "not allowed to place uprobes: %v", err)
		default:
			t.Fatalf("% x: %v", c, err)
		}
	}
	t.Logf("%d instructions, %d refused by the kernel", len(code), refused)
	if refused < 10 {
		t.Errorf("the kernel refused only %d: nothing was tested", refused)
	}
}

// refusedOnPurpose: see class and decodeARM64 for the reasons.
func refusedOnPurpose(in Insn) bool {
	if in.Arch == ARM64 {
		w := binary.LittleEndian.Uint32(in.Bytes)
		hint := w >> 5 & 0x7f
		return w&0x3b000000 == 0x18000000 || // literal loads, taken until 6.11
			w&0xfffff01f == 0xd503201f && (hint == 12 || hint == 14 || hint >= 28 && hint <= 31) // aut*
	}
	x, err := shapeAMD64(in.Bytes)
	return err == nil && (x.vector || x.rex2 || x.mapNo == 0 && (x.op == 0x9c || x.op == 0x90))
}

// probeCorpus is instructions of this machine that between them have every opcode that
// matters to the kernel.
func probeCorpus(t *testing.T) [][]byte {
	var out [][]byte
	add := func(b ...byte) {
		if in, err := Decode(Arch(runtime.GOARCH), append(b, make([]byte, 15)...), 0); err == nil {
			out = append(out, append(b, make([]byte, 15)...)[:in.Len])
		}
	}
	switch runtime.GOARCH {
	case "amd64":
		// Each probe takes the kernel a while (80 ms on a busy machine): not all opcodes.
		for _, c := range amd64Corpus {
			if b := unhex(t, c.hex); c.class != ClassStepped && b[0] != 0x2e && b[0] != 0x8f && b[0] != 0xd5 {
				out = append(out, b)
			}
		}
		for _, op := range []byte{0x05, 0x1d, 0x63, 0x65, 0x6b, 0x6c, 0x6f, 0x9d, 0xc3, 0xcd, 0xcf, 0xd7,
			0xe4, 0xe7, 0xec, 0xf1, 0xf5, 0xfa, 0xfc} {
			add(op, 0xc1)
		}
		for _, op := range []byte{0x2e, 0x28, 0x6f, 0x6e, 0xd6, 0xef, 0xfa, 0xfe} {
			add(0xc5, 0xf9, op, 0xc1)
		}
	case "arm64":
		for _, w := range []uint32{
			0x94000004, 0x14000002, 0x54000040, 0x34000040, 0xb5ffffe1, 0x36180040, 0xb7ffffe0, 0x10000040,
			0x90000010,
			0x58000040, 0x98000040, 0x1c000040, 0xd8000040, 0xd61f0200, 0xd63f0000, 0xd65f03c0, 0xd65f0bff,
			0xd73f0800, 0xd69f03e0,
			0xd503201f, 0xd503245f, 0xd503241f, 0xd503249f, 0xd50324df, 0xd503233f, 0xd50323bf, 0xd503237f,
			0xd50320ff, 0xd503211f,
			0xd503203f, 0xd503205f, 0xd503207f, 0xd503209f, 0xd50320bf, 0xd503221f, 0xd503225f, 0xd503229f,
			0xd4200000, 0xd4000001, 0xd4400000,
			0xd4a00001, 0xd53bd040, 0xd51bd040, 0xd5033bbf, 0xd5033fdf, 0xd503305f, 0xc85f7c00, 0xc8007c20,
			0xc87f0400, 0xc8207c20, 0xc8dffc00, 0xc89ffc00,
			0xc8a07c20, 0x48207c20, 0xa9bf7bfd, 0xa8c17bfd, 0xf9400211, 0xf8e00020, 0x4ea11c20, 0xd10043ff,
			0x910003fd, 0xaa0003e1, 0xd4a00002,
			0xd50b7420, 0xd5384100, 0xd53b4220, 0xd53b4200, 0xd51b4200, 0xd50342df, 0xd503401f, 0xd5380000,
			0x08df7c00,
		} {
			out = append(out, binary.LittleEndian.AppendUint32(nil, w))
		}
	}
	return out
}
