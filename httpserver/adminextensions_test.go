package httpserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/status"
)

// rulings gives o a configuration that Disable can change.
func rulings(o *exthost.Options, cfg *config.Config) {
	var mu sync.Mutex // the watch rereads beside a Disable
	var disabled []string
	o.Disable = func(id string, off bool) error {
		mu.Lock()
		defer mu.Unlock()
		disabled = slices.DeleteFunc(slices.Clone(disabled), func(s string) bool { return s == id })
		if off {
			disabled = append(disabled, id)
		}
		return nil
	}
	o.Reread = func() (*config.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		next := *cfg
		next.Extensions.Disabled = disabled
		return &next, nil
	}
}

func TestEnableAndDisable(t *testing.T) {
	cfg := config.Default()
	cfg.Destinations = config.Destinations{"there": {Type: config.DestinationHTTP, URL: "http://127.0.0.1:1/mcp"}}
	var o exthost.Options
	rulings(&o, cfg)
	h := openKitWith(t, cfg, o)
	api := "http://" + serve(t, Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "own"}, nil) + apiRoot
	own := authorization("Bearer own")
	state := func(id string) string {
		t.Helper()
		var x status.Extension
		if err := json.NewDecoder(send(t, http.MethodGet, api+"/extensions/"+id, own, "").Body).Decode(&x); err != nil {
			t.Fatal(err)
		}
		return x.State
	}
	for _, step := range []struct {
		path   string
		status int
		says   string
		state  string // of kit afterwards
	}{
		{"kit/disable", 204, "", status.StateDisabled},
		{"kit/disable", 204, "", status.StateDisabled},
		{"kit/restart", 403, "is disabled", status.StateDisabled},
		{"kit/enable", 204, "", "idle"},
		{"kit/enable", 204, "", "idle"},
		{"kitt/disable", 404, "did you mean", "idle"},
		{"there/disable", 400, "is a destination", "idle"},
		{"lost/disable", 204, "", "idle"},
		{"lost.server/enable", 403, "exthost enable lost", "idle"},
		{"lost/enable", 204, "", "idle"},
	} {
		r := send(t, http.MethodPost, api+"/extensions/"+step.path, own, "")
		var f failure
		_ = json.NewDecoder(r.Body).Decode(&f) // a success has no body
		if r.StatusCode != step.status || !strings.Contains(f.Error.Message, step.says) {
			t.Errorf("%s: %s, %q", step.path, r.Status, f.Error.Message)
		}
		if got := state("kit"); got != step.state {
			t.Errorf("kit is %s after %s", got, step.path)
		}
	}
	if _, ok := h.Tools().Lookup("ext_kit_say"); !ok {
		t.Error("the tools have not come back")
	}
}

// A read-only configuration is an error, and so is an extension excluded by the allowlist.
func TestEnableIsRefused(t *testing.T) {
	s, _ := adminServer(t)
	var f failure
	if code := askAdmin(t, s, "POST", apiRoot+"/extensions/kit/disable", "", &f); code != http.StatusConflict ||
		!strings.Contains(f.Error.Message, "extensions.disabled") {
		t.Errorf("%d %+v", code, f)
	}
	cfg := config.Default()
	cfg.Extensions.Allowlist = []string{"lost"}
	var o exthost.Options
	rulings(&o, cfg)
	allowing := httptest.NewServer(Admin(openKitWith(t, cfg, o), nil))
	defer allowing.Close()
	if code := askAdmin(t, allowing, "POST", apiRoot+"/extensions/kit/enable", "", &f); code != http.StatusForbidden ||
		!strings.Contains(f.Error.Message, "allowlist") {
		t.Errorf("%d %+v", code, f)
	}
}
