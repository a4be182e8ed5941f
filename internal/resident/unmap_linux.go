package resident

import (
	"bufio"
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Unmap takes from this process the pages of its program and libraries. They stay in the page cache,
// where all processes of the program have them, and the next use of a page costs a minor fault.
//
// The start of a large program touches pages everywhere, and the kernel maps fifteen neighbours with
// each. A mapping in which a page was changed, by the dynamic linker or by a debugger, stays as it is.
// Without /proc Unmap does nothing.
func Unmap() {
	for _, m := range unchanged() { // now that they are known: to find them takes pages of the program too
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchanged returns the mappings of the program and its libraries in which no page was changed.
func unchanged() (all []mapping) {
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer maps.Close()
	var m mapping // that the lines are about; empty if it is none of these
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		switch first, rest, _ := bytes.Cut(lines.Bytes(), []byte{' '}); {
		case !bytes.HasSuffix(first, []byte{':'}):
			m = program(first, rest)
		case m.to != 0 && string(first) == "Anonymous:" && string(bytes.TrimLeft(rest, " ")) == "0 kB":
			all = append(all, m)
		}
	}
	return all
}

// program returns a mapping if nothing can write to it and it is one of a file: the program, a library
// or their constants. addresses are the first word of the line, such as 00400000-012b5000, and rest is
// what follows it: r-xp 00000000 08:01 1234 /bin/exthost.
func program(addresses, rest []byte) mapping {
	readable := bytes.HasPrefix(rest, []byte("r-xp ")) || bytes.HasPrefix(rest, []byte("r--p "))
	if !readable || bytes.IndexByte(rest, '/') < 0 {
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
