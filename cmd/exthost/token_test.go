package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// The API requires the token in a file that only this user can read, and that exists only while the host runs.
func TestOperatorToken(t *testing.T) {
	processtest.Leaks(t)
	s := startServe(t, project(t,
		map[string]string{"extensions/kit/plugin.toml": kitManifest, "exthost.yaml": "server:\n  metrics: false\n"}))
	var said struct {
		Dashboard string
		TokenFile string `json:"token_file"`
	}
	if err := json.Unmarshal([]byte(s.stderr.String()), &said); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(said.TokenFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	token, err := os.ReadFile(said.TokenFile)
	if err != nil || len(token) < 26 {
		t.Fatalf("%q, %v", token, err)
	}
	if strings.Contains(s.stderr.String(), strings.TrimSpace(string(token))) {
		t.Error("the token is in the log")
	}
	base := strings.TrimSuffix(s.url, "/mcp")
	for _, tt := range []struct {
		path, token string
		code        int
	}{
		{"/api/v1/status", "", 401}, {"/api/v1/status", "x" + string(token), 401},
		{"/api/v1/status", string(token), 200},
		{strings.TrimPrefix(said.Dashboard, base), "", 200}, {"/metrics", string(token), 404},
	} {
		if code, body := request(t, base+tt.path, strings.TrimSpace(tt.token)); code != tt.code {
			t.Errorf("%s with %q: %d %s", tt.path, tt.token, code, body)
		}
	}
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(said.TokenFile); err == nil {
		t.Error("the token outlives its host")
	}
}

func TestServeMetrics(t *testing.T) {
	processtest.Leaks(t)
	s := startServe(t, project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest}))
	s.call(t, "ext_kit_say", `{"n":1}`)
	code, body := request(t, strings.TrimSuffix(s.url, "/mcp")+"/metrics", "")
	if want := `exthost_calls_total{extension="kit",outcome="ok",tool="ext_kit_say"} 1`; code != 200 ||
		!strings.Contains(body, want) {
		t.Errorf("%d, no %s in %s", code, want, body)
	}
	s.end(t, os.Interrupt)
}

func request(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
