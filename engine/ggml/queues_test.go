// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// Functions of a made-up library with the names of a device's interface: where they are probed, and what is
// read there.
func TestQueueSites(t *testing.T) {
	// vk_graph begins with push, which is emulated; cpu_graph moves the stack before it calls; vk_name has
	// nothing cheap
	f := fakeEngine(t, target.AMD64,
		map[string]string{"vk_graph": "vkQueueSubmit", "cpu_graph": "vkWaitForFences",
			"vk_name": "vkResetFences"})
	sites := newLib(f.open(t).ELF).queueSites(vulkanCalls(false))
	if len(sites) != 5 {
		t.Fatalf("%d sites: %+v", len(sites), sites)
	}
	none := engine.Arg{}
	for i, w := range []engine.Site{
		{Role: engine.RoleSubmitBegin, Addr: f.label["vk_graph"], A: reg(0), B: reg(3), C: at(0, 0),
			D: reg(1)},
		{Role: engine.RoleSubmitEnd, Addr: f.label["vk_graph"], Return: true},
		{Role: engine.RoleWaitBegin, Addr: f.label["cpu_graph"], A: none, B: at(2, 0), C: at(0, 0), D: reg(1),
			Covers: "token", Warning: steppedCost},
		{Role: engine.RoleWaitEnd, Addr: f.label["cpu_graph"], Return: true, Covers: "token",
			Warning: steppedCost},
		{Role: engine.RoleDone, Addr: f.label["vk_name"], B: reg(2), C: at(0, 0), D: reg(1),
			Warning: steppedCost},
	} {
		x := sites[i]
		if x.Role != w.Role || x.Addr != w.Addr || x.Return != w.Return || x.A != w.A || x.B != w.B ||
			x.C != w.C || x.D != w.D || x.Covers != w.Covers || x.Warning != w.Warning || x.Entry == "" {
			t.Errorf("site %d: %+v, want %+v", i, x, w)
		}
		if x.Role.Needs() != engine.LevelGraph {
			t.Errorf("%s needs level %s", x.Role, x.Role.Needs())
		}
	}

	// a call for each operator is probed only where that is cheap; what lies on the stack is read there
	f = fakeEngine(t, target.AMD64,
		map[string]string{"vk_graph": "cuLaunchKernel", "cpu_graph": "cuLaunchKernelEx",
			"vk_name": "cuStreamSynchronize"})
	sites = newLib(f.open(t).ELF).queueSites(cudaCalls(false))
	if len(sites) != 4 || sites[0].Entry != "cuLaunchKernel" ||
		sites[0].A != (engine.Arg{Kind: engine.ArgStackAt, Stack: 24}) ||
		sites[2].Entry != "cuStreamSynchronize" || sites[2].Covers != "queue" || sites[2].A != reg(0) {
		t.Errorf("%+v", sites)
	}
	f = fakeEngine(t, target.ARM64, map[string]string{"vk_graph": "cuLaunchKernel"})
	if sites = newLib(f.open(t).ELF).queueSites(cudaCalls(true)); len(sites) != 0 && sites[0].A.Stack != 0 {
		t.Errorf("%+v", sites)
	}
	if sites = newLib(fakeEngine(t, target.AMD64,
		nil).open(t).ELF).queueSites(openCLCalls(false)); len(sites) != 0 {
		t.Errorf("a library without such functions: %+v", sites)
	}
}

// In the real Vulkan loader, and in the real OpenCL loader where the system has one, every site is an
// instruction that the kernel emulates.
func TestRealQueueSites(t *testing.T) {
	installs(t)
	var found []string
	// WalkDir follows no links: the roots may be some
	dirs, _ := filepath.Glob(filepath.Join(os.Getenv("PROFINFER_ENGINES"), "*"))
	for _, dir := range append(dirs, "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu") {
		_ = filepath.WalkDir(dir+"/", func(p string, d fs.DirEntry, err error) error {
			if n := filepath.Base(p); err == nil && d.Type().IsRegular() &&
				(strings.HasPrefix(n, "libvulkan.so.") || strings.HasPrefix(n, "libOpenCL.so.")) {
				found = append(found, p)
			}
			return nil
		})
	}
	vulkan := false
	for _, p := range found {
		l := newLib(openFile(t, p).ELF)
		want, calls := "vkQueueSubmit vkQueueSubmit vkQueueSubmit2 vkQueueSubmit2 vkWaitForFences vkWaitForFences vkQueueWaitIdle vkQueueWaitIdle "+
			"vkDeviceWaitIdle vkDeviceWaitIdle vkWaitSemaphores vkWaitSemaphores vkResetFences", vulkanCalls(l.arm())
		if strings.HasPrefix(filepath.Base(p), "libOpenCL") {
			want, calls = "clEnqueueNDRangeKernel clEnqueueNDRangeKernel clFinish clFinish clWaitForEvents clWaitForEvents clEnqueueReadBuffer clEnqueueReadBuffer "+
				"clEnqueueWriteBuffer clEnqueueWriteBuffer", openCLCalls(l.arm())
		} else {
			vulkan = true
		}
		var got []string
		for _, s := range l.queueSites(calls) {
			got = append(got, s.Entry)
			if s.Warning != "" || s.Class != target.ClassEmulated && s.Class != target.ClassNop5 {
				t.Errorf("%s: %s at %s (%s) is %s", p, s.Role, s.Where, s.Insn, s.Class)
			}
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s has %s, want %s", p, g, want)
		}
	}
	if !vulkan {
		t.Skip("no engine has a Vulkan loader")
	}
	t.Log(found)
}
