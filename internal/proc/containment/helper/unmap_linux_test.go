package helper

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Released pages come back on use, and modified data stays.
func TestUnmap(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{program, ""} {
		// code and constants
		if mappings := unchanged(bytes.NewReader(smaps), path); len(mappings) < 2 {
			t.Fatalf("%q: %d mappings: %v", path, len(mappings), mappings)
		}
	}
	words := strings.Fields("what a process has written")
	for range 3 {
		UnmapProgram()
		unmap("")
		if got := strings.Join(words, " "); got != "what a process has written" {
			t.Fatal(got)
		}
	}
}

// A modified page may be resident or swapped out.
func TestUnchanged(t *testing.T) {
	smaps := ""
	for _, m := range []string{
		"1000-2000 r-xp 0 08:01 1 /bin/exthost|0|0", "2000-3000 r--p 0 08:01 1 /bin/exthost|4|0",
		"3000-4000 r--p 0 08:01 1 /bin/exthost|0|4",
		"4000-5000 rw-p 0 08:01 1 /bin/exthost|0|0", "5000-6000 r-xp 0 08:01 2 /lib/libc.so|0|0",
		"6000-7000 r-xp 0 08:01 1 /bin/exthost|0|0",
	} {
		f := strings.Split(m, "|")
		smaps += fmt.Sprintf("%s\nSize: 4 kB\nAnonymous: %s kB\nAnonHugePages: 0 kB\nSwap: %s kB\nSwapPss: 0 "+
			"kB\nVmFlags: rd ex\n", f[0], f[1], f[2])
	}
	for path, want := range map[string][]mapping{
		"":             {{0x1000, 0x2000}, {0x5000, 0x6000}, {0x6000, 0x7000}},
		"/bin/exthost": {{0x1000, 0x2000}, {0x6000, 0x7000}},
	} {
		if got := unchanged(strings.NewReader(smaps), path); !slices.Equal(got, want) {
			t.Errorf("%q: %x, want %x", path, got, want)
		}
	}
}

func TestProgram(t *testing.T) {
	for rest, want := range map[string]mapping{
		"r-xp 00000000 08:01 1234                      /bin/exthost":           {0x400000, 0x12b5000},
		"r--p 00eb5000 08:01 1234                      /bin/exthost (deleted)": {0x400000, 0x12b5000},
		"rw-p 00eb5000 08:01 1234                      /bin/exthost":           {},
		"rw-p 00000000 00:00 0 ":                               {},
		"r-xp 00000000 00:00 0                         [vdso]": {},
		"---p 00000000 00:00 0 ":                               {},
	} {
		if got := program([]byte("00400000-012b5000"), []byte(rest), ""); got != want {
			t.Errorf("%s: %v", rest, got)
		}
	}
	if got := program([]byte("VmFlags"), []byte("r-xp /"), ""); got != (mapping{}) {
		t.Errorf("what is no range: %v", got)
	}
}
