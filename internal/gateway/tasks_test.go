package gateway

import (
	"fmt"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// Who begins tasks without end forgets his own, and nobody else's.
func TestTasksAreBounded(t *testing.T) {
	all := newTasks(nil)
	first := taskKey{extension: "x", id: "of alice"}
	all.add(first, task{caller: "alice"})
	for n := range 2 * maxTasks {
		all.add(taskKey{extension: "x", id: fmt.Sprint(n)}, task{caller: "mallory"})
	}
	if len(all.known) != maxTasks || len(all.of) != 2 || len(all.of["mallory"]) != maxTasks-1 {
		t.Errorf("%d tasks of %d callers are known", len(all.known), len(all.of))
	}
	if !all.isOthers(first, "mallory") {
		t.Error("the first is not known any more")
	}
	if last := (taskKey{extension: "x", id: fmt.Sprint(2*maxTasks - 1)}); !all.isOthers(last, "alice") {
		t.Error("the last is not known")
	}
}

// What a session is told of its tasks ends with the task and with the session; whose
// they are does not.
func TestTasksAreToldOf(t *testing.T) {
	all, s := newTasks(nil), &protocol.Session{Caller: "alice"}
	one, two := taskKey{extension: "x", id: "1"}, taskKey{extension: "x", id: "2"}
	all.add(one, task{caller: "alice", session: s})
	all.add(two, task{caller: "alice", session: s})
	if all.watcher(one, "working") != s || all.watcher(one, "completed") != s || all.watcher(one, "completed") != nil {
		t.Error("a task is told of until it is over")
	}
	all.drop(s)
	if all.watcher(two, "working") != nil {
		t.Error("a session that has ended is told")
	}
	if !all.isOthers(one, "bob") || all.isOthers(two, "alice") {
		t.Error("a task is its caller's when it is over too")
	}
	all.add(one, task{caller: "bob"}) // by an extension that has started anew
	if all.isOthers(one, "bob") || !all.isOthers(one, "alice") || len(all.of["alice"]) != 1 {
		t.Error("a task is whose it was last")
	}
}
