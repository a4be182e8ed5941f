// Package vendortest answers as the APIs of model vendors do, and refuses what they
// refuse: it tests agent loops.
//
//	vendor := vendortest.Anthropic(t,
//		vendortest.Turn{Calls: []vendortest.Call{{Tool: "ext_notes_add", Arguments: `{"text":"milk"}`}}},
//		vendortest.Turn{Text: "Noted."},
//	)
//	t.Setenv("ANTHROPIC_BASE_URL", vendor.URL)
//	t.Setenv("ANTHROPIC_API_KEY", vendortest.Key)
package vendortest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Key is the only one that is accepted.
const Key = "key-of-the-test"

// Turn is an answer of the model: text, calls, or both.
type Turn struct {
	Text  string
	Calls []Call
	// Status, if it is not 0, is answered first, once, with Retry-After: 0.
	Status int
	// RetryAfter takes the place of that 0. The loop need not ask again then.
	RetryAfter string
	// Stop replaces the reason that the answer gives for its end.
	Stop string
}

// Call is one that the model asks for. Arguments are what a model writes, which the
// Messages API makes an object and Chat Completions passes on as a text.
type Call struct{ Tool, Arguments string }

// Result is what a loop said of a call.
type Result struct {
	Tool, Text string
	Failed     bool // always false over Chat Completions, which knows no such thing
}

// Vendor is a model's API whose model has its answers written down.
type Vendor struct {
	URL string // for the loop's environment

	t   testing.TB
	api wire

	mu      sync.Mutex
	turns   []Turn
	next    int
	refused bool // the status of the next turn has been answered
	said    []json.RawMessage
	offered []string
	results [][]Result
}

// wire is what one vendor's API looks like.
type wire struct {
	path   string
	header map[string]string
	// read checks a request in which the model's answers have to be said, and returns the
	// tools that are offered and what came of each answer's calls.
	read func(v *Vendor, body []byte) (offered []string, results [][]Result, err error)
	// write returns an answer, and what of it the next request has to repeat.
	write func(n int, t Turn) (answer, said any)
}

func start(t testing.TB, path string, api wire, turns []Turn) *Vendor {
	v := &Vendor{t: t, api: api, turns: turns}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		putOff := v.refused && turns[v.next].RetryAfter != ""
		if v.next < len(turns) && !putOff && !t.Failed() {
			t.Errorf("the model was asked %d times, not %d", v.next, len(turns))
		}
	})
	v.URL = server.URL + path
	return v
}

// Offered returns the names of the tools in the latest request.
func (v *Vendor) Offered() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.offered)
}

// Results returns what the loop has said of the calls of turn n, counted from 0.
func (v *Vendor) Results(n int) []Result {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n >= len(v.results) {
		return nil
	}
	return slices.Clone(v.results[n])
}

// ServeHTTP implements [http.Handler].
func (v *Vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = v.address(r)
	}
	if err == nil {
		v.offered, v.results, err = v.api.read(v, body)
	}
	w.Header().Set("Content-Type", "application/json")
	for name, want := range v.api.header {
		if r.Header.Get(name) != want {
			v.fault(w, http.StatusUnauthorized, name+" is not what it should be")
			return
		}
	}
	switch {
	case err != nil:
		v.t.Errorf("the API would refuse this request: %v\n%s", err, body)
		v.fault(w, http.StatusBadRequest, err.Error())
	case v.next == len(v.turns):
		v.t.Errorf("the model is asked once more than it has answers:\n%s", body)
		v.fault(w, http.StatusBadRequest, "no more answers")
	case v.turns[v.next].Status != 0 && !v.refused:
		v.refused = true
		w.Header().Set("Retry-After", cmp.Or(v.turns[v.next].RetryAfter, "0"))
		v.fault(w, v.turns[v.next].Status, "as the test wants it")
	default:
		answer, said := v.api.write(v.next, v.turns[v.next])
		raw, err := json.Marshal(said)
		if err != nil {
			v.t.Error(err)
		}
		v.next, v.refused, v.said = v.next+1, false, append(v.said, raw)
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (v *Vendor) address(r *http.Request) error {
	if r.Method != http.MethodPost || r.URL.Path != v.api.path || r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("%s %s, %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	return nil
}

// fault answers with an error; those of both vendors have these members.
func (v *Vendor) fault(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": "test", "message": text}})
}

func callID(turn, call int) string { return "call_" + strconv.Itoa(turn) + "_" + strconv.Itoa(call) }

// echoes wants that the loop has repeated an answer of the model as it was.
func (v *Vendor) echoes(n int, got json.RawMessage) error {
	var want, have any
	if json.Unmarshal(v.said[n], &want) != nil || json.Unmarshal(got, &have) != nil || !reflect.DeepEqual(want, have) {
		return fmt.Errorf("answer %d of the model is repeated as\n%s\nnot\n%s", n, got, v.said[n])
	}
	return nil
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// definition checks what the vendors agree upon and returns the name.
func definition(name string, schema json.RawMessage, seen []string) ([]string, error) {
	var s struct{ Type string }
	if err := json.Unmarshal(schema, &s); err != nil || s.Type != "object" {
		return nil, fmt.Errorf("tool %q: its schema is %s", name, schema)
	}
	if !toolName.MatchString(name) || slices.Contains(seen, name) {
		return nil, fmt.Errorf("tool name %q", name)
	}
	return append(seen, name), nil
}
