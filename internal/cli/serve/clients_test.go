package serve

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// watched is the stderr of a host. It calls begun before its first write, and sends the host's address on serves.
type watched struct {
	begun  func()
	serves chan string

	mu   sync.Mutex
	text strings.Builder
}

var servedAt = regexp.MustCompile(`"at":"(http://[^"]*)"`)

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text.Len() == 0 {
		w.begun()
	}
	w.text.Write(p)
	if at := servedAt.FindSubmatch(p); at != nil {
		w.serves <- string(at[1])
	}
	return len(p), nil
}

// A client that was removed after the configuration was read, and before the host could be found, is not served.
func TestClientIsRemovedDuringTheStart(t *testing.T) {
	processtest.Leaks(t)
	dir, token := t.TempDir(), clienttoken.New()
	for name, value := range map[string]string{"XDG_CONFIG_HOME": "user", "XDG_STATE_HOME": "state"} {
		t.Setenv(name, filepath.Join(dir, value))
	}
	t.Setenv("EXTHOST_TRUST", "off")
	users := filepath.Join(dir, "user", "exthost", "exthost.yaml")
	hash := "server: {listen: '127.0.0.1:0', clients: {bob: {}, ada: {token_hash: '" + clienttoken.Hash(token) +
		"'}}}\n"
	ignored := filepath.Join(dir, "work", "exthost.yaml") // with a warning
	err := errors.Join(
		os.MkdirAll(filepath.Dir(users), 0o700),
		os.WriteFile(users, []byte(hash), 0o600),
		os.Mkdir(filepath.Dir(ignored), 0o700),
		os.WriteFile(ignored, []byte("secrets: {provider: env}\n"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "work"))
	stderr := &watched{
		serves: make(chan string, 1),
		begun: func() {
			if err := os.WriteFile(users, []byte("server: {clients: {bob: {}}}\n"), 0o600); err != nil {
				t.Error(err)
			}
		},
	}
	c := &console.Console{In: strings.NewReader(""), Out: stderr, Err: stderr, Color: "never", Output: "table"}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		cmd := Command(c, func(func()) {})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(nil)
		ended <- cmd.ExecuteContext(ctx)
	}()
	select {
	case url := <-stderr.serves:
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a client that was removed: %s", answer.Status)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	case err := <-ended:
		t.Errorf("%v: %s", err, stderr.text.String())
	}
	stop()
}
