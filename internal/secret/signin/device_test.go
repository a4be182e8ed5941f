package signin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// begun answers the device authorization request; more are further members of the answer.
func begun(more string) func(s *oauthtest.Servers) {
	return answer("/device", 200, "application/json",
		`{"device_code":"secret-device-code","user_code":"ABCD","verification_uri":"https://as.example/enter","interval":1`+more+`}`)
}

// polls are the times of token requests.
type polls struct {
	mu sync.Mutex
	at []time.Time
}

// add records a request and returns how many there were.
func (p *polls) add() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Now())
	return len(p.at)
}

func (p *polls) times() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.at)
}

// polled answers token requests with these errors in turn, then with the last one forever.
func polled(p *polls, codes ...string) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) {
		s.Token = func(w http.ResponseWriter, r *http.Request) bool {
			n := p.add()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{
				"error":             codes[min(n, len(codes))-1],
				"error_description": "of " + r.FormValue("device_code"),
			})
			return true
		}
	}
}

func TestMisbehavioursOfDevices(t *testing.T) {
	processtest.Leaks(t)
	for name, tt := range map[string]struct {
		begin, poll func(s *oauthtest.Servers)
		codes       []string // errors while the client polls
		want        string   // part of the error; "": the user is signed in
		shown       string
	}{
		"approved at once": {want: "", shown: "ABCD-EFGH"},
		"no such login":    {begin: metadata("device_authorization_endpoint", nil), want: "use --paste"},
		"endpoint over http": {
			begin: metadata("device_authorization_endpoint", "http://as.example/device"),
			want:  "does not begin with https://",
		},
		"refused": {
			begin: begun(""),
			codes: []string{"authorization_pending", "access_denied"},
			want:  "the login was refused (access_denied: of [redacted])",
			shown: "ABCD",
		},
		"too fast, then refused": {
			begin: begun(""),
			codes: []string{"slow_down", "access_denied"},
			want:  "the login was refused",
			shown: "ABCD",
		},
		"expired": {
			begin: begun(""),
			codes: []string{"expired_token"},
			want:  "the code has expired",
			shown: "ABCD",
		},
		"expired, never said": {
			begin: begun(`,"expires_in":2`),
			codes: []string{"authorization_pending"},
			want:  "the code has expired",
			shown: "ABCD",
		},
		"expired before it began": {begin: begun(`,"expires_in":-1`), want: "the code has expired", shown: "ABCD"},
		"an error of its own": {
			begin: begun(""),
			codes: []string{"invalid_grant" + escape},
			want:  "was not approved: it answers 400 Bad Request (invalid_grant",
			shown: "ABCD",
		},
		"null": {
			begin: answer("/device", 200, "application/json", `null`),
			want:  "its answer has no code",
		},
		"no JSON": {
			begin: answer("/device", 200, "text/html", `<html>`),
			want:  "its answer has no code",
		},
		"no code": {
			begin: answer("/device", 200, "application/json",
				`{"user_code":"A","verification_uri":"https://x.example"}`),
			want: "its answer has no code",
		},
		"no login": {
			begin: answer("/device", 400, "application/json",
				`{"error":"unauthorized_client","error_description":"no\u001b[31m"}`),
			want: "begins no login: it answers 400 Bad Request (unauthorized_client: no[31m)",
		},
		"time runs backwards": {
			begin: begun(`,"interval":-1,"expires_in":1`),
			want:  "the code has expired",
			shown: "ABCD",
		},
		"time stands still": {
			begin: begun(`,"interval":4611686018427387904,"expires_in":1`),
			want:  "the code has expired",
			shown: "ABCD",
		},
		"the page is a script": {
			begin: begun(`,"verification_uri":"javascript:alert(1)"`),
			want:  "the address to open, javascript:alert(1), is refused",
		},
		"the page is not secret": {
			begin: begun(`,"verification_uri":"http://as.example/enter"`),
			want:  "the address to open, http://as.example/enter, is refused",
		},
		"the full page is a script": {
			begin: begun(`,"verification_uri_complete":"javascript:alert(1)","expires_in":-1`),
			want:  "the code has expired",
			shown: "ABCD",
		},
		"the code paints": {
			begin: begun(`,"user_code":"A\u001b[31mB\nC","expires_in":-1`),
			want:  "the code has expired",
			shown: "A[31mB C",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each case waits in real time
			s := oauthtest.New(t)
			var p polls
			if tt.begin != nil {
				tt.begin(s)
			}
			if tt.codes != nil {
				polled(&p, tt.codes...)(s)
			}
			var shown, page string
			way := &signin.Device{Show: func(address, code string) { page, shown = address, code }}
			ctx, cancel := context.WithTimeoutCause(t.Context(), bound, errors.New("the login has not ended"))
			defer cancel()
			_, err := (&signin.Server{Place: logins.Place{URL: s.URL}}).SignIn(ctx, way, nil, nil)
			if text := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(text, tt.want) ||
				strings.ContainsAny(text, "\x1b\n") || strings.Contains(text, "secret-device-code") ||
				shown != tt.shown || strings.HasPrefix(page, "javascript") {
				t.Errorf("%q, want %q; shown %q, %q", text, tt.want, page, shown)
			}
			asked := p.times()
			if len(asked) > 1 && tt.codes[0] == "slow_down" && asked[1].Sub(asked[0]) < 5*time.Second {
				t.Errorf("the server said slow_down, and was asked again after %v", asked[1].Sub(asked[0]))
			}
		})
	}
}
