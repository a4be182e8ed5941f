package helper

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// UnmapProgram releases the resident pages of this program, but not those of its libraries, because
// a host may load a library at any time.
func UnmapProgram() {
	if program, err := os.Readlink("/proc/self/exe"); err == nil {
		unmap(program)
	}
}

// unmap releases the resident pages of the file at path, or those of this program and its libraries if path is "". They
// stay in the page cache; the next use of a page costs a minor fault.
//
// The start of a large program touches pages everywhere, and with each the kernel maps fifteen
// neighbours. Mappings with pages that the dynamic linker or a debugger has modified stay as they
// are. Without /proc, unmap does nothing. While unmap runs, no other thread may load a library:
// relocations made after unmap has read the mappings would be lost.
func unmap(path string) {
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	all := unchanged(maps, path)
	maps.Close() // before the loop: whatever runs here maps pages again
	for _, m := range all {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchanged returns the mappings without modified pages: those of the file at path, or of all files
// if path is "". A modified page is anonymous or swapped out.
func unchanged(maps io.Reader, path string) (all []mapping) {
	var m mapping // the mapping being read; empty if it is to be skipped
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		first, rest, _ := bytes.Cut(lines.Bytes(), []byte{' '})
		none := string(bytes.TrimLeft(rest, " ")) == "0 kB"
		switch {
		case !bytes.HasSuffix(first, []byte{':'}):
			m = program(first, rest, path)
		case string(first) == "Anonymous:" && !none:
			m = mapping{}
		case string(first) == "Swap:" && none && m.to != 0: // Swap follows Anonymous
			all = append(all, m)
		}
	}
	return all
}

// program returns the mapping of a line of smaps if it is a read-only mapping of the file at path, or of any file if
// path is "": code or constants of the program or a library. The line is split into the addresses, such as
// 00400000-012b5000, and the rest, such as r-xp 00000000 08:01 1234 /bin/exthost.
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
