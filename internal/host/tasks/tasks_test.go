package tasks

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Of two tasks with the same id, the one that the toolset shows is found.
func TestShownTaskIsFoundAmongEqualIDs(t *testing.T) {
	all, s := New(nil), &protocol.Session{Caller: "ann"}
	all.add(Key{extension: "seen", id: "1"}, Task{Caller: "ann", Tool: "ext_seen_run"})
	all.add(Key{extension: "unseen", id: "1"}, Task{Caller: "ann", Tool: "ext_unseen_run"})
	all.add(Key{extension: "seen", id: "2"}, Task{Caller: "ann"}) // without a tool
	var sources []tools.Source
	for _, id := range []string{"seen", "unseen"} {
		sources = append(sources,
			tools.Source{
				Extension: id,
				Tools: []protocol.Tool{
					{Name: "run", Raw: json.RawMessage(`{"name":"run","inputSchema":{"type":"object"}}`)},
				},
			})
	}
	catalog, _ := tools.NewCatalog(1, sources, nil)
	views := toolset.NewViews(map[string]toolset.Definition{"part": {Include: []string{"ext_seen_r*"}}}, catalog,
		[]toolset.Extension{{ID: "seen"}, {ID: "unseen"}}, nil)
	part, err := views.Of("part")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		view     *toolset.View
		id, want string
	}{{nil, "1", "unseen"}, {part, "1", "seen"}, {nil, "2", "seen"}, {part, "2", ""}, {part, "3", ""}} {
		c, err := all.Resolve(&protocol.Call{Session: s}, tt.id, tt.view)
		if got := ""; err == nil {
			if got = c.Extension; got != tt.want {
				t.Errorf("task %s is of %q, want %q", tt.id, got, tt.want)
			}
		} else if tt.want != "" {
			t.Errorf("task %s: %v", tt.id, err)
		}
	}
}

// Only the caller who started a task gets at it, at its own extension or with a call that names none.
func TestOnlyTheCallerIsToldOfItsTask(t *testing.T) {
	all := New(nil)
	all.add(Key{extension: "x", id: "1"}, Task{Caller: "ann"})
	for _, tt := range []struct {
		caller, extension, params string
		want                      bool
	}{
		{"ann", "x", `{"taskId":"1"}`, true}, {"ann", "", `{"taskId":"1"}`, true},
		{"ann", "y", `{"taskId":"1"}`, false},
		{"bob", "x", `{"taskId":"1"}`, false}, {"ann", "x", `{"taskId":"2"}`, false}, {"ann", "x", `{}`, false},
	} {
		c := &protocol.Call{
			Session:   &protocol.Session{Caller: tt.caller},
			Extension: tt.extension,
			Method:    "tasks/get",
			Params:    json.RawMessage(tt.params),
		}
		if err := all.Begun(c); (err == nil) != tt.want {
			t.Errorf("%s of %s at %q: %v", tt.params, tt.caller, tt.extension, err)
		}
	}
}

// A caller with too many tasks loses its own oldest ones, not those of others.
func TestTasksAreBounded(t *testing.T) {
	all := New(nil)
	first := Key{extension: "x", id: "of alice"}
	all.add(first, Task{Caller: "alice"})
	for n := range 2 * maxTasks {
		all.add(Key{extension: "x", id: fmt.Sprint(n)}, Task{Caller: "mallory"})
	}
	if len(all.known) != maxTasks || len(all.of) != 2 || len(all.of["mallory"]) != maxTasks-1 {
		t.Errorf("%d tasks of %d callers are known", len(all.known), len(all.of))
	}
	if !all.isOthers(first, "mallory") {
		t.Error("the first is not known any more")
	}
	if last := (Key{extension: "x", id: fmt.Sprint(2*maxTasks - 1)}); !all.isOthers(last, "alice") {
		t.Error("the last is not known")
	}
}

// Notifications of a task end with the task and with the session, but the task still belongs to its caller.
func TestTaskNotificationsEnd(t *testing.T) {
	all, s := New(nil), &protocol.Session{Caller: "alice"}
	one, two := Key{extension: "x", id: "1"}, Key{extension: "x", id: "2"}
	all.add(one, Task{Caller: "alice", Session: s})
	all.add(two, Task{Caller: "alice", Session: s})
	watcher := func(key Key, status string) *protocol.Session {
		to, _ := all.Watcher(key, status)
		return to
	}
	if watcher(one, "working") != s || watcher(one, "completed") != s || watcher(one, "completed") != nil {
		t.Error("a task is told of until it is over")
	}
	all.Drop(s)
	if watcher(two, "working") != nil {
		t.Error("a session that has ended is told")
	}
	if !all.isOthers(one, "bob") || all.isOthers(two, "alice") {
		t.Error("a task is its caller's when it is over too")
	}
	all.add(one, Task{Caller: "bob"}) // from a restarted extension
	if all.isOthers(one, "bob") || !all.isOthers(one, "alice") || len(all.of["alice"]) != 1 {
		t.Error("a task is whose it was last")
	}
}
