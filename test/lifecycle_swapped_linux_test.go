package test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// swapping is an extension x that somebody else can write. Its run.sh loads part.sh.
type swapping struct {
	*hosttest.Folder
	open         func()
	h            *exthost.Host
	log          bytes.Buffer
	gate, loaded string // FIFOs: run.sh waits to load, and has loaded
	spare        string // the other part.sh
}

func newSwapping(t *testing.T, transport, answers string) *swapping {
	t.Helper()
	beside := t.TempDir()
	s := &swapping{
		Folder: hosttest.NewFolder(t),
		gate:   beside + "/gate",
		loaded: beside + "/loaded",
		spare:  beside + "/part.sh",
	}
	for _, fifo := range []string{s.gate, s.loaded} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.spare, []byte("export WORD=swapped\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Add("x", transport)
	s.Write("x/part.sh", "export WORD=agreed\n")
	s.Write("x/run.sh", strings.NewReplacer("GATE", s.gate, "LOADED", s.loaded, "EXE",
		hosttest.Exe(t)).Replace(answers))
	cfg := s.Config()
	cfg.Project.SearchPaths = true // found in a directory that the user has to trust
	k := &consent.Consent{Store: consent.NewStore(filepath.Join(beside, "trust"))}
	found, err := discovery.Discover(t.Context(), discovery.Options{SearchPaths: []string{s.Dir}})
	if err != nil || len(found.Candidates) != 1 {
		t.Fatal(found, err)
	}
	v, err := k.Extension(&found.Candidates[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Store.Trust(consent.Trusted{ID: "x", Verdict: v}); err != nil {
		t.Fatal(err)
	}
	s.open = func() {
		s.h = s.OpenWith(cfg, exthost.Options{Consent: k, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	}
	return s
}

// start lets run.sh load what around has put there.
func (s *swapping) start(around func()) {
	s.pass(s.gate, os.O_WRONLY, around)
	s.pass(s.loaded, os.O_RDONLY, around)
}

// swap exchanges part.sh and the spare one.
func (s *swapping) swap() {
	part := filepath.Join(s.Dir, "x", "part.sh")
	for _, names := range [][2]string{{part, s.spare + "~"}, {s.spare, part}, {s.spare + "~", s.spare}} {
		if err := os.Rename(names[0], names[1]); err != nil {
			s.T.Error(err)
		}
	}
}

// pass waits for a process at a FIFO.
func (s *swapping) pass(fifo string, flags int, then func()) {
	f, err := os.OpenFile(fifo, flags, 0)
	if err != nil {
		s.T.Error(err)
		return
	}
	then()
	if flags == os.O_RDONLY {
		_, err = io.Copy(io.Discard, f) // otherwise the writer would get EPIPE
	}
	if err := errors.Join(err, f.Close()); err != nil {
		s.T.Error(err)
	}
}

// call starts the process of x, which loads the file that around has put in place, and calls its tool until the tool
// answers or fails with a kind in final. Other errors come while the previous process is ending.
func (s *swapping) call(around func(), final ...protocol.Kind) (string, error) {
	type outcome struct {
		text string
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		ctx := hosttest.Deadline(s.T)
		result, err := s.h.Call(ctx, "ext_x_environ", nil)
		for err != nil && ctx.Err() == nil && !slices.Contains(final, protocol.KindOf(err)) {
			result, err = s.h.Call(ctx, "ext_x_environ", nil)
		}
		ended <- outcome{fmt.Sprint(result.Text(), string(result.Structured())), err}
	}()
	s.start(around)
	o := <-ended
	return o.text, o.err
}

// The beginning of run.sh, and the tool of its extension.
const (
	loadsPart       = "cd \"$(dirname \"$0\")\"; read go < GATE; . ./part.sh; echo > LOADED\n"
	offersEnviron   = "[capabilities]\ntools = [\"environ\"]\n"
	declaresEnviron = offersEnviron + "[[tools]]\nname = \"environ\"\n"
	runsScript      = "command = \"sh\"\nargs = [\"run.sh\"]\n"
	execsScript     = declaresEnviron + "[transport]\nkind = \"exec\"\n" + runsScript
)

// TestSwappedWhileItStarts replaces a trusted script after it was compared, and restores it once the other one is
// loaded.
func TestSwappedWhileItStarts(t *testing.T) {
	const answer = `read line; printf '{"id":1,"result":{"word":"%s"}}\n' "$WORD"; read line` + "\n"
	for name, tt := range map[string]struct{ transport, answers string }{
		"exec":  {execsScript, loadsPart + "echo $WORD\n"},
		"fails": {execsScript, loadsPart + "echo $WORD >&2; test $WORD = agreed\n"},
		"lite": {declaresEnviron + "[transport]\nprotocol = \"lite\"\n" + runsScript +
			"[runtime]\nactivation = \"lazy\"\n", loadsPart + answer},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := newSwapping(t, tt.transport, tt.answers)
			s.open()
			text, err := s.call(s.swap, protocol.Untrusted, protocol.ExtensionError)
			e, _ := errors.AsType[*protocol.Error](err)
			if e == nil || e.Kind != protocol.Untrusted || e.Outcome != "unknown" ||
				!strings.Contains(e.Error(), "part.sh") ||
				!strings.Contains(e.Error(), "exthost restart x (untrusted)") ||
				strings.Count(e.Error(), "(untrusted)") != 1 {
				t.Fatalf("the swapped script says %q, %+v", text, err)
			}
			if text, err := s.call(func() {}, protocol.ExtensionError); name != "fails" &&
				(err != nil || !strings.Contains(text, "agreed")) {
				t.Errorf("what is agreed to says %q, %v", text, err)
			}
			if err := s.h.Close(); err != nil {
				t.Error(err)
			}
			if !strings.Contains(s.log.String(), "part.sh") {
				t.Errorf("the log does not say so:\n%s", &s.log)
			}
		})
	}
}

// TestSwappedBeforeTheHandshake leaves the other script in place. The process would go on, but is ended before anybody
// calls it.
func TestSwappedBeforeTheHandshake(t *testing.T) {
	processtest.Leaks(t)
	s := newSwapping(t, offersEnviron+fmt.Sprintf("[transport]\nenv = { %s = \"sdk\" }\n",
		processtest.ScriptVar)+runsScript, loadsPart+"exec EXE\n")
	started := make(chan struct{})
	go func() {
		defer close(started)
		s.pass(s.gate, os.O_WRONLY, s.swap)
		s.pass(s.loaded, os.O_RDONLY, func() {})
	}()
	s.open()
	<-started
	if result, err := s.h.Call(hosttest.Deadline(t), "ext_x_environ", nil); err == nil {
		t.Errorf("the swapped script says %q", result.Text())
	}
	const want = "changed or replaced while it started: part.sh; exthost restart x"
	if x := hosttest.StatusOf(t, s.h, "x"); x.State != "failed" || !strings.Contains(x.Reason, want) ||
		x.Next != "exthost restart x" {
		t.Errorf("%s: %s, next %q", x.State, x.Reason, x.Next)
	}
	if causes := s.h.Admin().Status().Verdict.Causes; len(causes) != 1 || causes[0].Next != "exthost restart x" {
		t.Errorf("the causes are %+v", causes)
	}
	if err := s.h.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(s.log.String(), want) {
		t.Errorf("the log does not say so:\n%s", &s.log)
	}
}

// TestSwappedInALoop renames without a pause beside 200 calls: each is answered by the trusted script or refused.
func TestSwappedInALoop(t *testing.T) {
	processtest.Leaks(t)
	s := newSwapping(t, execsScript,
		"cd \"$(dirname \"$0\")\"; . ./part.sh; echo $WORD\n")
	s.open()
	if result, err := s.h.Call(hosttest.Deadline(t), "ext_x_environ", nil); err != nil ||
		strings.TrimSpace(result.Text()) != "agreed" {
		t.Fatal(result.Text(), err)
	}
	stop, renamed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(renamed)
		for {
			select {
			case <-stop:
				return
			default:
				s.swap()
				s.swap()
			}
		}
	}()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 25 {
				result, err := s.h.Call(hosttest.Deadline(t), "ext_x_environ", nil)
				if text := result.Text(); err == nil && strings.TrimSpace(text) != "agreed" ||
					err != nil && protocol.KindOf(err) != protocol.Untrusted {
					t.Errorf("a call says %q, %v", text, err)
				}
			}
		})
	}
	calls.Wait()
	close(stop)
	<-renamed
}

// TestDataBesideCode lets the script write, move and remove data in its folder: no call is refused.
func TestDataBesideCode(t *testing.T) {
	processtest.Leaks(t)
	s := newSwapping(t, execsScript,
		"cd \"$(dirname \"$0\")\"; . ./part.sh; mkdir -p data/new; echo 1 > data/notes.json~; mv data/notes.json~ "+
			"data/notes.json; echo 1 > x.db-journal; rm x.db-journal; "+
			"chmod 600 data/notes.json; chmod 700 data; rm -rf data/new; ln -sf notes.json data/latest; echo $WORD\n")
	s.open()
	for range 20 {
		if result, err := s.h.Call(hosttest.Deadline(t), "ext_x_environ", nil); err != nil ||
			strings.TrimSpace(result.Text()) != "agreed" {
			t.Fatalf("a call says %q, %v", result.Text(), err)
		}
	}
}
