package processtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// newPlace returns a place for builds, in a module with one program.
func newPlace(t *testing.T) place {
	t.Helper()
	p := place{
		run:  t.TempDir(),
		kept: t.TempDir(),
		work: filepath.Join(t.TempDir(), "program"),
	}
	if err := os.Mkdir(p.work, 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(t, "../go.mod", "module example.com\n")
	p.says(t, "one")
	return p
}

func (p place) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.work, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// says changes what the program prints.
func (p place) says(t *testing.T, text string) {
	t.Helper()
	p.write(t, "main.go", "package main\n\nfunc main() { print(`"+text+"`) }\n")
}

func (p place) program(t *testing.T) string {
	t.Helper()
	dir, err := p.build([]string{"./program"})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "program")
}

func output(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command(program).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestProgramIsThatOfTheSource(t *testing.T) {
	p := newPlace(t)
	first := p.program(t)
	p.says(t, "two")
	if again := p.program(t); again != first || output(t, first) != "one" {
		t.Errorf("a run of the tests has %s, and then %s, which says %s", first, again, output(t, first))
	}
	p.run = t.TempDir()
	if second := p.program(t); output(t, second) != "two" || output(t, first) != "one" {
		t.Errorf("of a changed source there are %q, and %q of the run before", output(t, second), output(t, first))
	}
}

func TestProgramThatIsUpToDateIsNotLinkedAgain(t *testing.T) {
	p := newPlace(t)
	kept := func() os.FileInfo {
		p.run = t.TempDir()
		p.program(t)
		names, err := filepath.Glob(filepath.Join(p.kept, "*", "program*"))
		if err != nil || len(names) != 1 {
			t.Fatalf("kept: %v, %v", names, err)
		}
		info, err := os.Stat(names[0])
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := kept()
	if second := kept(); !os.SameFile(first, second) {
		t.Error("it is another file")
	}
}

func TestProgramsOfRunsAtOnce(t *testing.T) {
	p := newPlace(t)
	other := p
	other.run = t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			at := []place{p, other}[i%2]
			dir, err := at.build([]string{"./program"})
			if err != nil {
				t.Error(err)
				return
			}
			if out, err := exec.Command(filepath.Join(dir, "program")).CombinedOutput(); err != nil ||
				string(out) != "one" {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
	wg.Wait()
}

func TestProgramThatDoesNotCompile(t *testing.T) {
	p := newPlace(t)
	p.write(t, "main.go", "package main\n\nfunc main() { missing() }\n")
	if _, err := p.build([]string{"./program"}); err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Error(err)
	}
	p.says(t, "one")
	if out := output(t, p.program(t)); out != "one" {
		t.Errorf("afterwards it says %q", out)
	}
	if _, err := (place{}).build(nil); err == nil {
		t.Error("programs are built nowhere")
	}
}
