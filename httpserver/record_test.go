package httpserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/recording/cassette"
)

// TestRecording records a call over the operator's API and ends the recording.
func TestRecording(t *testing.T) {
	h := openKit(t, exthost.Options{})
	s := httptest.NewServer(Admin(h, nil))
	defer s.Close()
	var failure string
	for query, want := range map[string]int{
		"?extension=kti": 404,
		"?for=soon":      400,
		"?for=-1s":       400,
		"?max_bytes=x":   400,
		"?max_bytes=5":   400,
	} {
		if code := askAdmin(t, s, "GET", "/api/v1/record"+query, "", &failure); code != want ||
			!strings.Contains(failure, "error") {
			t.Errorf("%s: %d %s", query, code, failure)
		}
	}
	resp, err := http.Get(s.URL + "/api/v1/record?id=mine&extension=kit")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_say/call", `{"n":12345678901234567890,"s":"<é>"}`,
		&failure); code != http.StatusOK {
		t.Fatal(code, failure)
	}
	if code := askAdmin(t, s, "POST", "/api/v1/record/stop?id=mine", "", &failure); code != http.StatusNoContent {
		t.Fatal(code, failure)
	}
	r, err := cassette.NewReader(resp.Body, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	called := false
	for {
		n, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, string(n.Kind))
		var frame struct {
			Params struct{ Arguments json.RawMessage }
		}
		if json.Unmarshal(n.Payload, &frame) == nil &&
			string(frame.Params.Arguments) == `{"n":12345678901234567890,"s":"<é>"}` {
			called = true
		}
	}
	if got := strings.Join(kinds, " "); got != "start offer sent received closed" || !called || !r.Complete {
		t.Error(got, called)
	}
}
