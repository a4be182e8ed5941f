package hooks

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/process"
)

// maxStdout is how much a command may write: room for a changed tool result.
const maxStdout = 4 << 20

var errTooMuch = fmt.Errorf("it wrote more than %d MiB to stdout and was killed", maxStdout>>20)

// stdout collects what a command writes, up to a limit.
type stdout struct {
	file *os.File
	data []byte
	done chan struct{} // closed when nothing more comes
	full chan struct{} // closed when there was more than the limit
}

func readStdout(proc *process.Process) *stdout {
	o := &stdout{file: proc.Stdout, done: make(chan struct{}), full: make(chan struct{})}
	go func() { // ends with the file, which end closes
		defer close(o.done)
		o.data, _ = io.ReadAll(io.LimitReader(o.file, maxStdout+1))
		if len(o.data) > maxStdout {
			close(o.full)
		}
	}()
	return o
}

// end waits for the last output of a dead process.
func (o *stdout) end() {
	select {
	case <-o.done:
	case <-time.After(drainWait): // somebody out of reach holds the pipe
	}
	o.file.Close()
	<-o.done
}

func (o *stdout) excess() bool { return len(o.data) > maxStdout }

// resolved is argv with the variables of env in its words and the absolute path
// of its program, which has been looked at.
func resolved(argv []string, dir string, env []string) ([]string, error) {
	lookup := process.Lookup(env)
	argv = slices.Clone(argv)
	line := shellLine(argv)
	for i, word := range argv {
		if line != "" && i > 0 {
			break
		}
		var err error
		if argv[i], err = process.Expand(word, lookup); err != nil {
			return nil, err
		}
	}
	if len(argv) == 0 {
		argv = []string{""} // refused by Resolve, with words for it
	}
	path, _ := lookup("PATH")
	program, err := process.Resolve(argv[0], dir, path)
	if err != nil {
		return nil, err
	}
	argv[0] = program
	if err := process.Check(program); err != nil {
		return nil, err
	}
	if script := scriptOf(line, lookup); script != "" {
		if !filepath.IsAbs(script) {
			script = filepath.Join(dir, script)
		}
		return argv, process.Check(script)
	}
	return argv, nil
}

var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh"}

// shellLine is the line that argv gives to a shell, "" when it gives none.
func shellLine(argv []string) string {
	if len(argv) >= 3 && argv[1] == "-c" && slices.Contains(shells, filepath.Base(argv[0])) {
		return argv[2]
	}
	return ""
}

// script matches the path that a shell line begins with, where it is plain enough
// to be sure of: "$CLAUDE_PROJECT_DIR"/hooks/check.sh and the like.
var script = regexp.MustCompile(`^\s*("?)(\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?)?("?)(/[A-Za-z0-9_./-]+|\./[A-Za-z0-9_./-]+)("?)(?:\s|$)`)

// scriptOf is the file that a shell would start first for line, "" when that is
// not plain to see. A shell that cannot find it only says 127 when it is too late.
func scriptOf(line string, lookup func(string) (string, bool)) string {
	m := script.FindStringSubmatch(line)
	if m == nil || strings.Count(m[1]+m[4]+m[6], `"`)%2 != 0 {
		return ""
	}
	base := ""
	if m[3] != "" {
		var ok bool
		if base, ok = lookup(m[3]); !ok || base == "" {
			return ""
		}
	}
	return base + m[5]
}
