package resident

import (
	"strings"
	"testing"
)

// What Unmap takes is there again when it is used, and what a process has written stays.
func TestUnmap(t *testing.T) {
	mappings := unchanged()
	if len(mappings) < 2 { // its instructions and its constants
		t.Fatalf("%d mappings: %v", len(mappings), mappings)
	}
	words := strings.Fields("what a process has written")
	for range 3 {
		Unmap()
		if got := strings.Join(words, " "); got != "what a process has written" {
			t.Fatal(got)
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
		if got := program([]byte("00400000-012b5000"), []byte(rest)); got != want {
			t.Errorf("%s: %v", rest, got)
		}
	}
	if got := program([]byte("VmFlags"), []byte("r-xp /")); got != (mapping{}) {
		t.Errorf("what is no range: %v", got)
	}
}
