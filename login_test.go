package exthost_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/logins"
	"github.com/exthost/exthost/internal/oauthtest"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/internal/signin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// signedIn are the logins of a store.
type signedIn struct{ *logins.Store }

func (s signedIn) Login(id, of, url string) runtime.Login {
	return s.Store.Login(logins.Place{ID: id, Of: of, URL: url})
}

// logIn signs in to the server of an extension.
func logIn(t testing.TB, store *logins.Store, p logins.Place, more ...string) {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := signin.NewBrowser(0, func(address string) {
		if resp, err := http.Get(address); err == nil {
			resp.Body.Close()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	earlier, err := store.Get(p)
	if err != nil {
		t.Fatal(err)
	}
	g, err := (&signin.Server{Place: p}).SignIn(deadline(t), b, more, earlier)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

// remoteLogins opens a host with an extension that is a server which wants logins.
func remoteLogins(t testing.TB, s *oauthtest.Servers) (*exthost.Host, *logins.Store, logins.Place) {
	t.Helper()
	h, store, p, _ := remoteLoginsIn(t, s, t.TempDir())
	return h, store, p
}

// remoteLoginsIn is remoteLogins with the directory of the logins, and returns the folder.
func remoteLoginsIn(t testing.TB, s *oauthtest.Servers, dir string) (*exthost.Host, *logins.Store, logins.Place, *folder) {
	t.Helper()
	store := logins.Open(dir, signin.Client)
	t.Cleanup(store.Close)
	f := newFolder(t).add("gh", "[transport]\nurl = \""+s.URL+"\"\n").add("kid", child("sdk", ""))
	p := logins.Place{ID: "gh", Of: filepath.Join(f.dir, "gh"), URL: s.URL}
	h := f.open(exthost.Options{Logins: func(*config.Config) exthost.Logins { return signedIn{store} }})
	return h, store, p, f
}

// A server that wants a login says so, works once the user has signed in, and goes on when its
// tokens expire, until the authorization server gives no more.
func TestLogin(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	h, store, p := remoteLogins(t, s)
	if x := statusOf(t, h, "gh"); x.State != "failed" || x.Reason != "needs login: exthost login gh" || x.Login != x.Reason {
		t.Errorf("%s: %s", x.State, x.Reason)
	}
	logIn(t, store, p)
	if err := h.Admin().Restart(deadline(t), "gh"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its tools are listed", func() bool { _, err := h.Call(deadline(t), "ext_gh_hello", nil); return err == nil })
	for range 3 {
		if r, err := h.Call(deadline(t), "ext_gh_hello", nil); err != nil || r.Text() != "hello" {
			t.Fatal(r, err)
		}
		s.Expire()
	}
	var wg sync.WaitGroup
	before, _ := s.Refreshes()
	for range 64 {
		wg.Go(func() {
			if _, err := h.Call(deadline(t), "ext_gh_hello", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if after, refused := s.Refreshes(); after != before+1 || refused > 0 {
		t.Errorf("%d refreshes, %d refused", after-before, refused)
	}
	s.Revoke()
	_, err := h.Call(context.Background(), "ext_gh_hello", nil)
	if protocol.KindOf(err) != protocol.RequirementMissing || !strings.Contains(err.Error(), "exthost login gh") {
		t.Error(err)
	}
}

// A destination is signed in to as an extension is, under its own name.
func TestLoginOfADestination(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	store := logins.Open(t.TempDir(), signin.Client)
	t.Cleanup(store.Close)
	h := openDestination(t, "", func(d *config.Destination) {
		*d = config.Destination{Type: config.DestinationHTTP, URL: s.URL, StartTimeout: d.StartTimeout}
	},
		exthost.Options{Logins: func(*config.Config) exthost.Logins { return signedIn{store} }})
	client := &protocol.Session{ID: "one", Version: protocol.MCP20251125, Extension: "d"}
	call := func() error { _, err := ask(t, h, client, "hello", "{}"); return err }
	if err := call(); protocol.KindOf(err) != protocol.RequirementMissing || !strings.Contains(err.Error(), "needs login: exthost login d") {
		t.Error(err)
	}
	if d := destinationStatus(t, h); d.Login != "needs login: exthost login d" {
		t.Errorf("%+v", d.Extension)
	}
	logIn(t, store, logins.Place{ID: "d", URL: s.URL})
	if err := h.Admin().Restart(deadline(t), "d"); err != nil {
		t.Fatal(err)
	}
	if err := call(); err != nil {
		t.Error(err)
	}
	if d := destinationStatus(t, h); d.Login != "" {
		t.Errorf("%+v", d.Extension)
	}
}
