package process

import (
	"os"
	"path/filepath"
	"testing"
)

// CRLFScript names the script that cannot run, and no other file with such lines.
func TestCRLFScript(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"env":     "#!/usr/bin/env python3\r\nprint(1)\r\n",
		"unix":    "#!/usr/bin/env python3\nprint(1)\r\n",
		"dos.sh":  "echo a\r\n",
		"unix.sh": "echo a\n",
		"text":    "a\r\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{file("env")}, file("env")},
		{[]string{file("unix")}, ""},
		{[]string{file("text")}, ""},
		{[]string{"/bin/sh", "dos.sh"}, file("dos.sh")},
		{[]string{"/bin/sh", file("dos.sh"), "x"}, file("dos.sh")},
		{[]string{"/bin/sh", "unix.sh"}, ""},
		{[]string{"/bin/sh", "-c", "x"}, ""},
		{[]string{"/bin/sh"}, ""},
		{[]string{"/usr/bin/python3", file("text")}, ""},
		{[]string{file("missing")}, ""},
		{[]string{dir}, ""},
		{nil, ""},
	} {
		if got := CRLFScript(tt.argv, dir); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.argv, got, tt.want)
		}
	}
}
