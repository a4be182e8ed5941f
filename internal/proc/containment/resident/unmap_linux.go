package resident

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Unmap takes from this process the pages of its program and libraries. They stay in the page cache,
// where all processes of the program have them, and the next use of a page costs a minor fault.
//
// The start of a large program touches pages everywhere, and the kernel maps fifteen neighbours with
// each. A mapping in which a page was changed, by the dynamic linker or by a debugger, stays as it is.
// Without /proc Unmap does nothing. No other thread may load a library meanwhile: what the dynamic linker
// changes in it after a look at the mappings would be lost.
func Unmap() { unmap("") }

// UnmapProgram is Unmap for the program alone, for a process that may load a library at any time.
func UnmapProgram() {
	if program, err := os.Readlink("/proc/self/exe"); err == nil {
		unmap(program)
	}
}

// unmap takes the pages of the file at that path, or of all if it is "".
func unmap(path string) {
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	all := unchanged(maps, path)
	maps.Close() // before it: all that is done here takes pages of the program too
	for _, m := range all {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchanged returns the mappings of the file at path, or of all files, in which no page was changed. A
// page that was changed is anonymous, or swapped out.
func unchanged(maps io.Reader, path string) (all []mapping) {
	var m mapping // that the lines are about; empty if it is none of these, or was changed
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		first, rest, _ := bytes.Cut(lines.Bytes(), []byte{' '})
		none := string(bytes.TrimLeft(rest, " ")) == "0 kB"
		switch {
		case !bytes.HasSuffix(first, []byte{':'}):
			m = program(first, rest, path)
		case string(first) == "Anonymous:" && !none:
			m = mapping{}
		case string(first) == "Swap:" && none && m.to != 0: // which comes later
			all = append(all, m)
		}
	}
	return all
}

// program returns a mapping if nothing can write to it and it is one of the file at path, or of any file if
// that is "": the program, a library or their constants. addresses are the first word of the line, such as
// 00400000-012b5000, and rest is what follows it: r-xp 00000000 08:01 1234 /bin/exthost.
func program(addresses, rest []byte, path string) mapping {
	readable := bytes.HasPrefix(rest, []byte("r-xp ")) || bytes.HasPrefix(rest, []byte("r--p "))
	if !readable || bytes.IndexByte(rest, '/') < 0 || !bytes.HasSuffix(rest, []byte(path)) {
		return mapping{}
	}
	first, last, _ := bytes.Cut(addresses, []byte{'-'})
	from, err := strconv.ParseUint(string(first), 16, 64)
	to, err2 := strconv.ParseUint(string(last), 16, 64)
	if err != nil || err2 != nil {
		return mapping{}
	}
	return mapping{uintptr(from), uintptr(to)}
}
