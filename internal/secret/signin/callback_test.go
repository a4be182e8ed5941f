package signin_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// callback sends a request to the loopback server and returns the status.
func callback(t *testing.T, method, address, host string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestCallbackOfOthers: other programs and web pages can reach the loopback server, but cannot end the login. The
// server uses a redirect once.
func TestCallbackOfOthers(t *testing.T) {
	processtest.Leaks(t)
	defer http.DefaultClient.CloseIdleConnections()
	s := oauthtest.New(t)
	var held []net.Conn
	open := func(address string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Error(err)
			return
		}
		at, state := u.Query().Get("redirect_uri"), "&state="+u.Query().Get("state")
		back, _ := url.Parse(at)
		for range 100 { // connections that send nothing
			c, err := net.Dial("tcp", back.Host)
			if err != nil {
				t.Error(err)
				return
			}
			held = append(held, c)
		}
		for _, tt := range []struct {
			method, address, host string
			want                  int
		}{
			{"GET", at + "?code=theirs", "", 403},
			{"GET", at + "?code=theirs&state=theirs", "", 403},
			{"GET", at + "?error=access_denied&state=", "", 403},
			{"GET", at + "?code=theirs" + state, "rebound.example", 404},
			{"GET", at + "?code=theirs" + state, "rebound.example:" + back.Port(), 404},
			{"GET", at + "?code=theirs" + state, "localhost:" + back.Port(), 404},
			{"POST", at + "?code=theirs" + state, "", 404},
			{"GET", "http://" + back.Host + "/?code=theirs" + state, "", 404},
			{"GET", at + "/more?code=theirs" + state, "", 404},
		} {
			if got := callback(t, tt.method, tt.address, tt.host); got != tt.want {
				t.Errorf("%+v: %d", tt, got)
			}
		}
		resp, err := http.Get(address)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		if got := callback(t, "GET", resp.Request.URL.String(), ""); resp.StatusCode != 200 || got != 409 {
			t.Errorf("%d, again %d", resp.StatusCode, got)
		}
	}
	b, err := signin.NewBrowser(0, open)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), bound, errors.New("the login has not ended"))
	defer cancel()
	if _, err := (&signin.Server{Place: logins.Place{URL: s.URL}}).SignIn(ctx, b, nil, nil); err != nil ||
		s.Asked("/token") != 1 {
		t.Errorf("%v; %d requests for tokens", err, s.Asked("/token"))
	}
	for _, c := range held {
		c.Close()
	}
}
