package logins_test

import (
	"io/fs"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// use requests a token and uses it, renewing it once if the server refuses it.
func use(t *testing.T, s *oauthtest.Servers, l *logins.Login) error {
	t.Helper()
	token, err := l.Token(limited(t))
	if err == nil && !accepted(t, s, token) {
		if token, err = l.Renew(limited(t), token, nil); err == nil && !accepted(t, s, token) {
			err = l.Refused(token)
		}
	}
	return err
}

// TestShortLife renews tokens that live for a second, repeatedly and in time.
func TestShortLife(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	s.Life = time.Second
	store, g := signedIn(t, s)
	l := store.Login(g.Place)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for done, refused := 0, 0; done < 3; <-tick.C {
		began := time.Now()
		// otherwise the new token may have expired before the server saw it
		if err := use(t, s, l); err != nil && time.Since(began) < s.Life/2 {
			t.Fatal(err)
		}
		if done, refused = s.Refreshes(); refused > 0 {
			t.Fatalf("%d refreshes were refused", refused)
		}
	}
}

// TestClocks: clocks of servers and this machine differ or are set. The server decides whether a token has
// expired, and no token is renewed twice.
func TestClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, tt := range map[string]struct {
		issued, expires time.Duration // relative to now
		ended           bool          // as the server sees it
		renewals        int
	}{
		"set back":                        {year, year + time.Hour, false, 0},
		"set back, and it has ended":      {year, year + time.Hour, true, 1},
		"set forward":                     {-year, -year + time.Hour, false, 1},
		"slow":                            {-time.Minute, time.Hour, true, 1},
		"unknown":                         {0, 0, true, 1},
		"expires before it was given":     {time.Hour, -time.Hour, false, 1},
		"in the last tenth, still counts": {-time.Hour, time.Second, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := oauthtest.New(t)
			store, g := signedIn(t, s)
			if g.Issued, g.Expires = time.Now().Add(tt.issued), time.Now().Add(tt.expires); tt.expires == 0 {
				g.Expires = time.Time{}
			}
			if err := store.Put(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			if tt.ended {
				s.Expire()
			}
			l := store.Login(g.Place)
			eventually := time.NewTicker(time.Millisecond) // early renewals are in the background
			defer eventually.Stop()
			for n := 0; n < 3 || s.Asked("/token") < 1+tt.renewals; n++ {
				if err := use(t, s, l); err != nil {
					t.Fatal(err)
				}
				<-eventually.C
			}
			if done, refused := s.Refreshes(); done != tt.renewals || refused > 0 {
				t.Errorf("%d renewals, %d refused", done, refused)
			}
		})
	}
}

// TestNoRefreshToken: without a refresh token, the login lasts until the server refuses the token; then the user
// must sign in again.
func TestNoRefreshToken(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	s.NoRefresh = true
	store, g := signedIn(t, s) // expired by this machine's clock
	l := store.Login(g.Place)
	for range 3 {
		if err := use(t, s, l); err != nil {
			t.Fatal(err)
		}
	}
	s.Expire()
	for range 3 {
		if err := use(t, s, l); protocol.KindOf(err) != protocol.RequirementMissing ||
			err.(*protocol.Error).Message !=
				"needs login, because the server no longer accepts the last one, which cannot be renewed: exthost "+
					"secret login x" {
			t.Error(err)
		}
	}
	if n := s.Asked("/token"); n != 1 {
		t.Errorf("%d requests for tokens", n)
	}
}

// TestRecovers: an unavailable authorization server is asked again after its Retry-After.
func TestRecovers(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	var down atomic.Bool
	s.Token = func(w http.ResponseWriter, _ *http.Request) bool {
		if down.Load() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "down", http.StatusServiceUnavailable)
		}
		return down.Load()
	}
	store, g := signedIn(t, s)
	down.Store(true)
	l := store.Login(g.Place)
	if err := use(t, s, l); protocol.KindOf(err) != protocol.NotReady ||
		err.(*protocol.Error).RetryAfter != time.Second {
		t.Error(err)
	}
	down.Store(false)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx := limited(t); use(t, s, l) != nil; <-tick.C {
		if ctx.Err() != nil {
			t.Fatal("it does not recover")
		}
	}
	if done, refused := s.Refreshes(); done != 1 || refused > 0 || s.Asked("/token") != 3 {
		t.Errorf("%d refreshes, %d refused, of %d requests", done, refused, s.Asked("/token"))
	}
}

// TestSignedOutMeanwhile: a running renewal does not restore a login after signing out.
func TestSignedOutMeanwhile(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	store, g := signedIn(t, s)
	l := store.Login(g.Place)
	if _, err := l.Token(limited(t)); err != nil {
		t.Fatal(err)
	}
	if err := store.Remove(g.Place); err != nil {
		t.Fatal(err)
	}
	if token, err := l.Token(limited(t)); token != "" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	if _, err := l.Renew(limited(t), g.Access, nil); protocol.KindOf(err) != protocol.RequirementMissing {
		t.Error(err)
	}
	if err := store.Remove(g.Place); err == nil {
		t.Error("a login is stored again")
	} else if _, is := err.(*fs.PathError); !is {
		t.Error(err)
	}
}

// TestRefusedForAWhile: no new login is needed if the server first refuses a new token and later accepts it.
func TestRefusedForAWhile(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	store, g := signedIn(t, s)
	l := store.Login(g.Place)
	token, err := l.Token(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	want := l.Refused(token)
	if l.Needed() == "" || protocol.KindOf(want) != protocol.RequirementMissing {
		t.Errorf("%q, %v", l.Needed(), want)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ctx := limited(t); l.Needed() != ""; <-tick.C {
		if err := use(t, s, l); err != nil || ctx.Err() != nil {
			t.Fatal(err, l.Needed())
		}
	}
	if n := s.Asked("/token"); n != 2 {
		t.Errorf("%d requests for tokens", n)
	}
}
