package lineage

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Verb{"boast": boast})
}

const boasted = 1 << 30

// boast gives this process a large empty mapping as its environment, and waits.
func boast(string) {
	far, err := unix.Mmap(-1, 0, boasted, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		fmt.Println(err)
		return
	}
	stat, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on
	number := func(field int) uint64 { n, _ := strconv.ParseUint(fields[field-3], 10, 64); return n }
	brk, _, _ := unix.RawSyscall(unix.SYS_BRK, 0, 0, 0)
	start := uint64(uintptr(unsafe.Pointer(&far[0])))
	layout := struct { // struct prctl_mm_map
		code, codeEnd, data, dataEnd, heap, heapEnd, stack, args, argsEnd, environ, environEnd, auxv uint64
		auxvSize, program                                                                            uint32
	}{number(26), number(27), number(45), number(46), number(47), uint64(brk), number(28), number(48), number(49),
		start, start + boasted, 0, 0, 1<<32 - 1}
	if err := unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&layout)), unsafe.Sizeof(layout),
		0); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A process can set the location and size of its environment, even to more than the machine's memory.
func TestLongEnvironment(t *testing.T) {
	processtest.Leaks(t)
	exe, env := processtest.Script(t, "boast")
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stderr = env, os.Stderr
	in, out := processtest.Piped(t, cmd)
	defer cmd.Wait()
	defer in.Close()
	if said, _ := out.ReadString('\n'); said != "done\n" {
		t.Skipf("NOT TESTED: the kernel does not let a process say where its environment is: %s", said)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if found, _ := (process{pid: cmd.Process.Pid}).hasCookie(); found {
		t.Error("there is a cookie")
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > boasted/8 {
		t.Errorf("reading it took %d MiB", took>>20)
	}
}
