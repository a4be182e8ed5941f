package signin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// TestMisbehavioursOfAddresses: a public server cannot make exthost connect to this machine or network, even by
// redirects.
func TestMisbehavioursOfAddresses(t *testing.T) {
	processtest.Leaks(t)
	here := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(here.Close)
	u, err := url.Parse(here.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		server, asked string
		allowed       bool
	}{
		{"http://127.0.0.1/mcp", here.URL, true},
		{"http://localhost/mcp", here.URL, true},
		{"https://[::1]/mcp", here.URL, true},
		{"https://8.8.8.8/mcp", here.URL, false},
		{"https://8.8.8.8/mcp", "http://localhost:" + u.Port(), false},
		{"https://8.8.8.8/mcp", "http://[::ffff:127.0.0.1]:" + u.Port(), false},
		{"https://8.8.8.8/mcp", "http://10.0.0.1:1", false},
		{"https://8.8.8.8/mcp", "http://169.254.169.254", false},
		{"https://10.0.0.1/mcp", here.URL, false}, // names in that network could resolve to this machine
		{"nonsense", here.URL, false},
	} {
		client := signin.Client(tt.server)
		resp, err := client.Get(tt.asked)
		if err == nil {
			resp.Body.Close()
		}
		if client.CloseIdleConnections(); (err == nil) != tt.allowed ||
			err != nil && !strings.Contains(err.Error(), "has the private address") {
			t.Errorf("%s asks %s: %v", tt.server, tt.asked, err)
		}
	}
	for _, address := range []string{"http://8.8.8.8/mcp", "http://[2001:4860:4860::8888]/mcp", ":"} {
		if _, err := (&signin.Server{Place: logins.Place{URL: address}}).SignIn(t.Context(), &signin.Paste{}, nil,
			nil); err == nil || !strings.Contains(err.Error(), "over https://") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
