// Package vendortest imitates the APIs of model vendors, including the requests that they
// refuse, to test agent loops.
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

// Key is the only accepted key.
const Key = "key-of-the-test"

// Turn is one answer of the model: text, calls, or both.
type Turn struct {
	Text  string
	Calls []Call
	// Status, if not 0, is an HTTP status that is sent once before the answer, with Retry-After: 0.
	Status int
	// RetryAfter replaces the 0 in that Retry-After. A large one tests a loop that need not retry.
	RetryAfter string
	// Stop replaces the stop reason of the answer.
	Stop string
}

// Call is a call that the model requests. Arguments is JSON text as a model writes it: the
// Messages API sends it as an object, Chat Completions as a string.
type Call struct{ Tool, Arguments string }

// Result is a result that a loop has sent.
type Result struct {
	Tool, Text string
	Failed     bool // always false for Chat Completions, which has no such member
}

// Vendor is a vendor's API with scripted answers.
type Vendor struct {
	URL string // for the loop's environment

	t   testing.TB
	api format

	mu      sync.Mutex
	turns   []Turn
	next    int
	refused bool // the status of the next turn has been sent
	answers []json.RawMessage
	offered []string
	results [][]Result
}

// format is the request and answer format of one vendor.
type format struct {
	path   string
	header map[string]string
	// read checks a request, which must repeat all previous answers, and returns the
	// offered tools and the results of each answer's calls.
	read func(v *Vendor, body []byte) (offered []string, results [][]Result, err error)
	// write returns an answer and the part of it that the next request must repeat.
	write func(n int, t Turn) (answer, repeated any)
}

func start(t testing.TB, path string, api format, turns []Turn) *Vendor {
	v := &Vendor{t: t, api: api, turns: turns}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		postponed := v.refused && turns[v.next].RetryAfter != ""
		if v.next < len(turns) && !postponed && !t.Failed() && !t.Skipped() {
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

// Results returns the results of the calls of turn n, counted from 0.
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
		answer, repeated := v.api.write(v.next, v.turns[v.next])
		raw, err := json.Marshal(repeated)
		if err != nil {
			v.t.Error(err)
		}
		v.next, v.refused, v.answers = v.next+1, false, append(v.answers, raw)
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (v *Vendor) address(r *http.Request) error {
	if r.Method != http.MethodPost || r.URL.Path != v.api.path || r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("%s %s, %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	return nil
}

// fault sends an error in the form that both vendors share.
func (v *Vendor) fault(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type":  "error",
		"error": map[string]any{"type": "test", "message": text},
	})
}

func callID(turn, call int) string { return "call_" + strconv.Itoa(turn) + "_" + strconv.Itoa(call) }

// checkRepeated returns an error unless the loop has repeated answer n unchanged.
func (v *Vendor) checkRepeated(n int, got json.RawMessage) error {
	var want, have any
	if json.Unmarshal(v.answers[n], &want) != nil || json.Unmarshal(got, &have) != nil ||
		!reflect.DeepEqual(want, have) {
		return fmt.Errorf("answer %d of the model is repeated as\n%s\nnot\n%s", n, got, v.answers[n])
	}
	return nil
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// definition checks the rules that both vendors share and appends the name.
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
