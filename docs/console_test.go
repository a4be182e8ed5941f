package docs_test

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// patience bounds every wait of a test; none is expected to last.
const patience = 60 * time.Second

// usualPort is where the pages say that the host serves. The tests take any free
// port and put it in its place.
const usualPort = "127.0.0.1:7800"

// usualHub is where they say that the hub of a cluster is.
const usualHub = "127.0.0.1:7822"

// goRun is how pages run programs of the checkout, which stand on PATH already.
var goRun = regexp.MustCompile(`go run \./(cmd|examples)/`)

// skipped are the warnings about bundled extensions whose program this machine lacks. The pages show a machine that
// has all.
var skipped = regexp.MustCompile(
	`(?m)^warn: \S+: skipped, the program (python3|node|uptime) is not on PATH, or not executable\n`)

// missing is the verdict about a host that lacks such an extension.
var missing = regexp.MustCompile(
	`(?m)^DEGRADED: extension \S+ is skipped: the program (python3|node|uptime) is not on PATH, or not executable.*$`)

// console runs commands and compares what they print, stdout and stderr together.
func (r *runner) console(text string) {
	r.Helper()
	for part := range strings.SplitSeq("\n"+text, "\n$ ") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		command, want, _ := strings.Cut(part, "\n")
		command = goRun.ReplaceAllString(command, "")
		if serves(command) {
			r.serve(command, want)
			continue
		}
		verdict, _, _ := strings.Cut(want, "\n")
		ready := strings.HasPrefix(verdict, "READY: ")
		if ready {
			// The reader of a page is slower than the slowest extension. Without a host the command itself fails.
			_ = r.shell("exthost status --ready --wait 60s").Run()
		}
		out, err := r.shell(command).CombinedOutput()
		if err != nil {
			r.fail("%s: %v\n%s", command, err, out)
		}
		got := skipped.ReplaceAllString(r.usual(string(out)), "")
		if ready {
			got = missing.ReplaceAllLiteralString(got, verdict)
		}
		if want != "" && !like(want, got) {
			r.fail("%s prints\n%s\nnot\n%s", command, got, want)
		}
	}
}

func (r *runner) shell(command string) *exec.Cmd {
	return r.command("sh", "-c", r.actual(command))
}

// actual spells what a page says with the address at which its server really is.
func (r *runner) actual(text string) string {
	text = strings.ReplaceAll(text, usualHub, r.hub)
	// The go command knows what it has compiled by the directory, and that of a link is another one in each run.
	text = strings.ReplaceAll(text, "exthost=../exthost", "exthost="+r.checkout)
	if r.server == nil {
		return text
	}
	return strings.ReplaceAll(text, usualPort, r.server.address)
}

// progress matches a line that says what a command waits for, and that was erased.
var progress = regexp.MustCompile(`(?m)^.*\r\x1b\[K`)

// usual spells what depends on the run as the pages do, without what was erased.
func (r *runner) usual(out string) string {
	out = strings.ReplaceAll(progress.ReplaceAllString(out, ""), r.hub, usualHub)
	if r.server != nil {
		out = strings.ReplaceAll(out, r.server.address, usualPort)
	}
	return strings.ReplaceAll(out, r.dir+string(os.PathSeparator), "")
}

func serves(command string) bool {
	return strings.Contains(command, "exthost serve") && !strings.Contains(command, "--stdio") &&
		!strings.Contains(command, ";")
}

// server is the exthost serve of a page, which runs to the page's end.
type server struct {
	address string
	said    transcript
}

// transcript collects output and tells that there is more.
type transcript struct {
	mu   sync.Mutex
	text string
	more chan struct{} // holds one token; closed at the end
}

// read collects all that f has.
func (s *transcript) read(f io.Reader) {
	defer close(s.more)
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		s.mu.Lock()
		s.text += strings.ReplaceAll(string(buf[:n]), "\r\n", "\n")
		s.mu.Unlock()
		if err != nil {
			return // a terminal ends with an error
		}
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

var servingOn = regexp.MustCompile(`serving http://(127\.0\.0\.1:\d+)/mcp`)

// serve starts the server of the page on a terminal and waits until it has said
// what the page shows. Ctrl-C ends it with the page, without an error.
func (r *runner) serve(command, want string) {
	r.Helper()
	reader, terminal := openTerminal(r)
	cmd := exec.Command("sh", "-c", "exec "+command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.dir, r.env, terminal, terminal
	if err := cmd.Start(); err != nil {
		r.fail("%v", err)
	}
	terminal.Close() // now only the server has it
	s := &server{said: transcript{more: make(chan struct{}, 1)}}
	go s.said.read(reader)
	line := r.at.line
	r.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			r.Errorf("block of line %d: Ctrl-C: %v\n%s", line, err, &s.said)
		}
		for range s.said.more { // to its end
		}
	})
	deadline := time.After(patience)
	for more := true; ; {
		said := s.said.String()
		if m := servingOn.FindStringSubmatch(said); m != nil {
			s.address = m[1]
			r.server = s
		}
		if s.address != "" && like(want, r.usual(said)) {
			return
		}
		if !more {
			r.fail("%s ends with\n%s\nnot\n%s", command, r.usual(said), want)
		}
		select {
		case _, more = <-s.said.more:
		case <-deadline:
			r.fail("%s says\n%s\nnot\n%s", command, r.usual(said), want)
		}
	}
}
