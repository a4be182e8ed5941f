package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/status"
)

// TestSecretsOnStderrReachNobody: a process prints an unknown secret and dies. The host quotes its output in log,
// journal, status and call error without the secret.
func TestSecretsOnStderrReachNobody(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sh is needed")
	}
	processtest.Leaks(t)
	w := &witness{seen: make(map[string]*bytes.Buffer)}
	f := hosttest.NewFolder(t)
	script := fmt.Sprintf("echo trouble with %[1]s >&2\necho no frame %[1]s\nexit 3\n", planted["github"])
	for id, more := range map[string]string{"early": "", "late": "[runtime]\nactivation = \"lazy\"\n"} {
		f.Write(id+"/run.sh", script)
		f.Add(id, hosttest.ToolsOfChild+"[transport]\ncommand = \"sh\"\nargs = [\"./run.sh\"]\n"+more)
	}
	h := f.Open(exthost.Options{Logger: slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	w.saw("the operator", "ready: ", h.Ready(hosttest.Deadline(t)))
	_, err := h.Call(hosttest.Deadline(t), "ext_late_echo", json.RawMessage(`{}`))
	if err == nil {
		t.Fatal("the call of a process that died succeeded")
	}
	answer, _ := json.Marshal(err)
	w.saw("the caller", err, string(answer))
	for r := range h.Admin().Logs(hosttest.Deadline(t), status.LogFilter{Level: slog.LevelDebug}) {
		w.saw("the journal", fmt.Sprintf("%+v", r))
	}
	status, _ := json.Marshal(h.Admin().Status())
	w.saw("the operator", string(status))
	for _, who := range []string{"the log", "the journal", "the operator", "the caller"} {
		w.mu.Lock()
		seen := w.seen[who]
		w.mu.Unlock()
		if seen == nil || who != "the caller" && !bytes.Contains(seen.Bytes(), []byte("[redacted:github-pat]")) {
			t.Errorf("%s is not put to the test: %s", who, seen)
		}
		w.clean(t, who)
	}
}
