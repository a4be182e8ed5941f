package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

// appendState adds a line to a file in the extension's state directory, in one write.
func appendState(name, line string) {
	f, err := os.OpenFile(filepath.Join(os.Getenv("EXTHOST_STATE_DIR"), name), os.O_APPEND|os.O_CREATE|os.O_WRONLY,
		0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// journaled is a call of the journal extension: it records its nonce and ends its process until the nonce has been
// recorded more often than it is to die.
type journaled struct {
	Nonce string `json:"nonce"`
	Die   int    `json:"die"`
}

// journalExtension has one tool with each annotation, and one without.
func journalExtension() *sdk.Extension {
	x := sdk.New("1.0.0")
	run := func(_ context.Context, in journaled) (string, error) {
		appendState("journal", in.Nonce)
		data, _ := os.ReadFile(filepath.Join(os.Getenv("EXTHOST_STATE_DIR"), "journal"))
		noted := slices.DeleteFunc(strings.Fields(string(data)), func(nonce string) bool { return nonce != in.Nonce })
		if len(noted) <= in.Die {
			processtest.Exit(3)
		}
		return "done " + in.Nonce, nil
	}
	sdk.AddTool(x, sdk.Tool{Name: "reads", ReadOnly: true}, run)
	sdk.AddTool(x, sdk.Tool{Name: "repeats", Idempotent: true}, run)
	sdk.AddTool(x, sdk.Tool{Name: "acts"}, run)
	return x
}

const journalCapabilities = "[capabilities]\ntools = [\"reads\", \"repeats\", \"acts\"]\n"

// openJournal opens a host whose configuration sets replay of the journal extension.
func openJournal(t *testing.T, replay, more string, o exthost.Options) *exthost.Host {
	t.Helper()
	f := hosttest.NewFolder(t).Add("x", journalCapabilities+hosttest.Plays("journal", more))
	cfg := f.Config()
	cfg.Extensions.Entries = map[string]config.Entry{"x": {Runtime: manifest.Runtime{Replay: replay}}}
	return f.OpenWith(cfg, o)
}

// A call whose process dies is repeated once if operator and tool permit it, under the same decision, and never more
// than once.
func TestReplayOfIdempotentCalls(t *testing.T) {
	processtest.Leaks(t)
	for _, tt := range []struct {
		replay, more, tool string
		die                int
		kind               protocol.Kind
		outcome            string
		journal            int
	}{
		{"idempotent", "", "reads", 1, "", "", 2},
		{"idempotent", "", "repeats", 1, "", "", 2},
		{"idempotent", "", "repeats", 0, "", "", 1},
		{"idempotent", "", "repeats", 9, protocol.ChildExited, "unknown", 2},
		{"idempotent", "", "acts", 1, protocol.ChildExited, "unknown", 1},
		{"never", "", "repeats", 1, protocol.ChildExited, "unknown", 1},
		{"", "", "repeats", 1, protocol.ChildExited, "unknown", 1},
		{"", "[runtime]\nreplay = \"idempotent\"\n", "repeats", 1, protocol.ChildExited, "unknown", 1},
		// An error of the second attempt does not hide the outcome of the call.
		{"idempotent", "[runtime.restart]\nmax_attempts = 0\n", "repeats", 1, protocol.ChildExited, "unknown", 1},
	} {
		t.Run(fmt.Sprint(tt.replay, tt.tool, tt.die, len(tt.more)), func(t *testing.T) {
			state, policy := t.TempDir(), &sentinel{}
			var hooked []string
			note := func(p hooks.Point) hooks.Handler {
				return hooks.Handler{
					Name:  "note",
					Point: p,
					Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
						hooked = append(hooked, string(e.Point))
						return nil, nil
					},
				}
			}
			h := openJournal(t, tt.replay, tt.more, exthost.Options{StateDir: state,
				Policies: []governance.Member{member("sentinel", governance.Authorization, policy)},
				Hooks: []hooks.Handler{
					note(hooks.BeforeToolCall),
					note(hooks.AfterToolCall),
					note(hooks.ToolCallFailed),
				}})
			got, err := h.Call(hosttest.Deadline(t), "ext_x_"+tt.tool, journaled{"n", tt.die})
			e, _ := errors.AsType[*protocol.Error](err)
			switch {
			case tt.kind == "" && (err != nil || got.Text() != "done n"):
				t.Errorf("%s, %v", got, err)
			case tt.kind != "" &&
				(e == nil || e.Kind != tt.kind || e.Outcome != tt.outcome || e.Evidence == nil ||
					*e.Evidence.ExitCode != 3):
				t.Errorf("%+v", err)
			}
			if n := len(hosttest.LinesOf(t, state, "x", "journal")); n != tt.journal {
				t.Errorf("carried out %d times, want %d", n, tt.journal)
			}
			flows, points := []string{
				"request > tools/call ext_x_" + tt.tool,
				"response > tools/call ext_x_" + tt.tool,
			}, []string{"before_tool_call", "after_tool_call"}
			if tt.kind != "" {
				flows, points = flows[:1], []string{"before_tool_call", "tool_call_failed"}
			}
			if diff := cmp.Diff(flows, policy.seen); diff != "" {
				t.Errorf("governance: %s", diff)
			}
			if diff := cmp.Diff(points, hooked); diff != "" {
				t.Errorf("hooks: %s", diff)
			}
		})
	}
}

// A call does not wait for an instance that takes long to start.
func TestReplayDoesNotWaitForLong(t *testing.T) {
	processtest.Leaks(t)
	state := t.TempDir()
	h := openJournal(t, "idempotent", "[runtime.restart]\nbase_backoff = \"1h\"\nmax_backoff = \"1h\"\n",
		exthost.Options{StateDir: state})
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_acts",
		journaled{"first", 1}); protocol.KindOf(err) != protocol.ChildExited {
		t.Fatal(err)
	}
	// The next restart is not due for long: the call fails with the first attempt's error.
	_, err := h.Call(hosttest.Deadline(t), "ext_x_repeats", journaled{"second", 1})
	if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Kind != protocol.ChildExited || e.Outcome != "unknown" {
		t.Errorf("%+v", err)
	}
	if got := hosttest.LinesOf(t, state, "x", "journal"); !cmp.Equal(got, []string{"first", "second"}) {
		t.Errorf("journal: %q", got)
	}
}

// Under many callers and deaths, each call has one outcome, and is carried out at most twice, and at least once if it
// succeeded.
func TestReplayStorm(t *testing.T) {
	processtest.Leaks(t)
	state := t.TempDir()
	h := openJournal(t, "idempotent",
		"[runtime.restart]\nmax_attempts = -1\nbase_backoff = \"1ms\"\nmax_backoff = \"1ms\"\n",
		exthost.Options{StateDir: state})
	const callers, each = 8, 10
	outcomes := make(map[string]error)
	var replayed atomic.Bool // a call that died has succeeded; until then the storm goes on
	enough := hosttest.Deadline(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := 0; n < each || !replayed.Load() && enough.Err() == nil; n++ {
				in := journaled{Nonce: fmt.Sprint(c, "-", n)}
				if n%5 == c%5 {
					in.Die = 1
				}
				got, err := h.Call(hosttest.Deadline(t), "ext_x_repeats", in)
				if err == nil && got.Text() != "done "+in.Nonce {
					err = fmt.Errorf("the answer to another: %s", got)
				}
				if err == nil && in.Die > 0 {
					replayed.Store(true)
				}
				mu.Lock()
				outcomes[in.Nonce] = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if !replayed.Load() {
		t.Error("no call was replayed")
	}
	lines := make(map[string]int)
	for _, nonce := range hosttest.LinesOf(t, state, "x", "journal") {
		lines[nonce]++
	}
	for nonce, err := range outcomes {
		n := lines[nonce]
		e, _ := errors.AsType[*protocol.Error](err)
		if err != nil && (e == nil || e.Kind != protocol.ChildExited && e.Kind != protocol.NotReady) {
			t.Errorf("%s: %v", nonce, err)
		}
		if n > 2 || err == nil && n == 0 || e != nil && e.Outcome == "" && n > 0 {
			t.Errorf("%s: carried out %d times, %v", nonce, n, err)
		}
	}
}

// A replayed call is visible as one call that succeeded and a restart.
func TestReplayIsCounted(t *testing.T) {
	processtest.Leaks(t)
	h, began := openJournal(t, "idempotent", "", exthost.Options{}), time.Now()
	if _, err := h.Do(hosttest.Deadline(t), &protocol.Call{Method: protocol.MethodToolsCall,
		Params: json.RawMessage(`{"name":"ext_x_reads","arguments":{"nonce":"n","die":1}}`)}); err != nil {
		t.Fatal(err)
	}
	s := hosttest.StatusOf(t, h, "x")
	if s.Requests != 1 || s.Calls != 1 || s.Errors != 0 || s.Restarts != 1 || s.LastCrash == nil ||
		s.LastCrash.Time.Before(began) {
		t.Errorf("%+v", s)
	}
}
