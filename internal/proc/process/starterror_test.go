//go:build unix

package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// The system has three error numbers for a dozen different mistakes.
func TestStartErrors(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		return writeFile(t, filepath.Join(dir, name), content, mode)
	}
	good := file("good", "#!/bin/sh\n", 0o755)
	for name, tt := range map[string]struct {
		spec   Spec
		reason Reason
		text   string // in the message
	}{
		"missing":        {Spec{Path: dir + "/missing"}, NotFound, "build it"},
		"below a file":   {Spec{Path: good + "/x"}, NotFound, "spelling"},
		"dangling link":  {Spec{Path: link(t, dir, "dangling", "nowhere")}, NotFound, "not found"},
		"not executable": {Spec{Path: file("plain", "#!/bin/sh\n", 0o644)}, NotExecutable, "chmod +x"},
		"directory":      {Spec{Path: dir}, IsDirectory, "inside it"},
		"bad interpreter": {Spec{Path: file("bad", "#!/opt/no/python3 -u\n", 0o755)}, BadInterpreter,
			`"/opt/no/python3"`},
		"interpreter no exec":  {Spec{Path: file("noexec", "#! "+dir+"/plain\n", 0o755)}, BadInterpreter, "/plain"},
		"CRLF":                 {Spec{Path: file("crlf", "#!/bin/sh\r\necho\r\n", 0o755)}, CRLFShebang, `/bin/sh\r`},
		"no shebang":           {Spec{Path: file("text", "echo hello\n", 0o755)}, BadFormat, "#!/bin/sh"},
		"empty":                {Spec{Path: file("empty", "", 0o755)}, BadFormat, "#!/bin/sh"},
		"cwd missing":          {Spec{Path: good, Dir: dir + "/gone"}, CwdMissing, "/gone"},
		"cwd is a file":        {Spec{Path: good, Dir: good}, CwdMissing, "cwd"},
		"argument too big":     {Spec{Path: good, Args: []string{strings.Repeat("x", 3<<20)}}, ArgsTooBig, "stdin"},
		"NUL in environment":   {Spec{Path: good, Env: []string{"A=\x00"}}, Invalid, "environment"},
		"NUL in argument":      {Spec{Path: good, Args: []string{"\x00"}}, Invalid, "arguments"},
		"relative":             {Spec{Path: "good"}, Invalid, "absolute"},
		"escape in the path":   {Spec{Path: "/no/\x1b[31m"}, NotFound, `/no/\x1b[31m:`},
		"cwd before the rest":  {Spec{Path: dir + "/missing", Dir: dir + "/gone"}, CwdMissing, "cwd"},
		"interpreter wins not": {Spec{Path: dir + "/bad", Args: []string{"\x00"}}, Invalid, "arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Start(t.Context(), tt.spec)
			var failed *StartError
			if p != nil || !errors.As(err, &failed) {
				t.Fatalf("Start: %v, %v", p, err)
			}
			if failed.Reason != tt.reason || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %s: %v\nwant %s with %q", failed.Reason, err, tt.reason, tt.text)
			}
		})
	}
}

func link(t *testing.T, dir, name, target string) string {
	path := filepath.Join(dir, name)
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program linked against a loader that is not installed fails like a missing file.
func TestMissingLoader(t *testing.T) {
	processtest.Leaks(t)
	program, err := os.ReadFile("/bin/true")
	if err != nil || !bytes.Contains(program, []byte("/ld-linux")) {
		t.Skip("/bin/true names no loader that could be replaced")
	}
	program = bytes.Replace(program, []byte("/ld-linux"), []byte("/ld-gnuhn"), 1)
	path := writeFile(t, filepath.Join(t.TempDir(), "foreign"), string(program), 0o755)
	_, err = Start(t.Context(), Spec{Path: path})
	var failed *StartError
	if !errors.As(err, &failed) || failed.Reason != BadInterpreter || !strings.Contains(failed.Culprit, "/ld-gnuhn") {
		t.Errorf("Start: %v", err)
	}
}

func TestBusyFile(t *testing.T) {
	processtest.Leaks(t)
	path := writeFile(t, filepath.Join(t.TempDir(), "tool"), "#!/bin/sh\n", 0o755)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var failed *StartError
	if _, err := Start(t.Context(), Spec{Path: path}); !errors.As(err, &failed) || failed.Reason != Busy {
		t.Errorf("Start: %v", err)
	}
}

// Start succeeds if an installation finishes in time.
func TestFileBusyForAMoment(t *testing.T) {
	processtest.Leaks(t)
	path := writeFile(t, filepath.Join(t.TempDir(), "tool"), "#!/bin/sh\n", 0o755)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tries := 0
	ctx := &countingContext{
		Context: t.Context(),
		onErr: func() {
			if tries++; tries == 3 { // Err is called once before each attempt
				f.Close()
			}
		},
	}
	p, err := Start(ctx, Spec{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	p.Stdout.Close()
	if tries != 3 || !p.Exit().Success() {
		t.Errorf("%d tries, %v", tries, p.Exit())
	}
}
