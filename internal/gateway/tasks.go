package gateway

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
)

const (
	// taskMethods begins the methods about tasks.
	taskMethods = "tasks/"
	// maxTasks bounds the known tasks. Beyond it the caller with the most tasks loses its
	// oldest.
	maxTasks = 1 << 14
)

// taskKey names a task. Instances of one session each may choose the same ids.
type taskKey struct {
	extension, instance string
	legacy              bool
	id                  string
}

// sharedKey is the id of a task at an extension, at whatever instance.
type sharedKey struct{ extension, id string }

// task is work that an extension continues after it has answered the call. An extension
// that serves several callers knows one, the host. The gateway knows the caller of each
// task, and hides the task from others (MCP 2025-11-25, basic/utilities/tasks, "Task
// Isolation and Access Control"). Callers without a name are one caller.
type task struct {
	caller  string
	tool    string            // registered name of the tool whose call began the task; "" for another request
	session *protocol.Session // that is notified of its status; nil when the session or the task has ended
}

// Tasks are the known tasks. A task that is not known, such as one of a server elsewhere
// that outlived the host, is open to anybody who knows its id.
type Tasks struct {
	sessions *Sessions

	mu    sync.Mutex // guards what follows
	known map[taskKey]task
	of    map[string][]taskKey // by caller, the oldest first
	// How many tasks of each caller have an id at all instances of an extension: several
	// instances may share one store of tasks.
	shared map[sharedKey]map[string]int
}

func newTasks(s *Sessions) *Tasks {
	return &Tasks{sessions: s, known: make(map[taskKey]task), of: make(map[string][]taskKey), shared: make(map[sharedKey]map[string]int)}
}

func (t *Tasks) add(key taskKey, begun task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(key) // an extension that was restarted may begin at 1 again
	if len(t.known) == maxTasks {
		var most []taskKey
		for _, keys := range t.of {
			if len(keys) > len(most) {
				most = keys
			}
		}
		t.forget(most[0])
	}
	t.known[key] = begun
	t.of[begun.caller] = append(t.of[begun.caller], key)
	t.count(key, begun.caller, 1)
}

func (t *Tasks) count(key taskKey, caller string, by int) {
	at := sharedKey{key.extension, key.id}
	if t.shared[at] == nil {
		t.shared[at] = make(map[string]int)
	}
	if t.shared[at][caller] += by; t.shared[at][caller] == 0 {
		delete(t.shared[at], caller)
	}
	if len(t.shared[at]) == 0 {
		delete(t.shared, at)
	}
}

func (t *Tasks) forget(key taskKey) {
	known, ok := t.known[key]
	if !ok {
		return
	}
	delete(t.known, key)
	t.count(key, known.caller, -1)
	keys := t.of[known.caller]
	if at := slices.Index(keys, key); at == 0 {
		keys = keys[1:] // the usual case, without a copy
	} else {
		keys = slices.Delete(keys, at, at+1)
	}
	if t.of[known.caller] = keys; len(keys) == 0 {
		delete(t.of, known.caller)
	}
}

func (t *Tasks) get(key taskKey) (known task, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok = t.known[key]
	return known, ok
}

// isOthers reports whether a different caller began the task: at this instance, or at
// another one that this instance may share tasks with, if the caller has none of that id.
func (t *Tasks) isOthers(key taskKey, caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[key]; ok {
		return known.caller != caller
	}
	callers := t.shared[sharedKey{key.extension, key.id}]
	return len(callers) > 0 && callers[caller] == 0
}

// isOwn reports whether the caller is known to have begun the task, at any instance.
func (t *Tasks) isOwn(key taskKey, caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[key]; ok {
		return known.caller == caller
	}
	return t.shared[sharedKey{key.extension, key.id}][caller] > 0
}

// resolve returns a call about the task of that id with the extension that carries the
// task out.
func (t *Tasks) resolve(c *protocol.Call, id string) (*protocol.Call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, ok := t.latest(c, id)
	if !ok {
		return nil, unknownTask(id)
	}
	out := *c
	out.Extension = key.extension
	return &out, nil
}

// toolOf returns the tool whose call began the task that c is about, "" for none.
func (t *Tasks) toolOf(c *protocol.Call) string {
	id, _ := taskID(c.Method, c.Params)
	if id == "" {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key, _ := t.latest(c, id)
	return t.known[key].tool
}

// latest returns the latest task of that id of the caller, at the call's extension if it
// names one.
func (t *Tasks) latest(c *protocol.Call, id string) (key taskKey, ok bool) {
	caller := ""
	if c.Session != nil {
		caller = c.Session.Caller
	}
	for _, key := range slices.Backward(t.of[caller]) {
		if key.id == id && (c.Extension == "" || c.Extension == key.extension) {
			return key, true
		}
	}
	return taskKey{}, false
}

// watcher returns the session that is to be notified of a task's status, nil for none. The
// status of a task that has ended is notified once.
func (t *Tasks) watcher(key taskKey, status string) *protocol.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[key]
	if !ok {
		return nil
	}
	to := known.session
	switch status {
	case "completed", "failed", "cancelled":
		known.session = nil
		t.known[key] = known
	}
	return to
}

// drop drops a session that has ended. Its tasks stay those of its caller.
func (t *Tasks) drop(s *protocol.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, known := range t.known {
		if known.session == s {
			known.session = nil
			t.known[key] = known
		}
	}
}

// keyOf names the task of that id at an instance.
func keyOf(i *unit.Instance, id string) taskKey {
	key := taskKey{extension: i.Unit.ID(), legacy: i.Legacy, id: id}
	if i.Unit.PerSession() {
		key.instance = i.Key
	}
	return key
}

// taskID returns the id of the task that a request is about, "" for none. It refuses
// params that can be read in two ways, of which the extension may take the other: two ids,
// another case, a list.
func taskID(method string, params json.RawMessage) (id string, err error) {
	if !strings.HasPrefix(method, taskMethods) {
		return "", nil
	}
	for key, value := range rawjson.Members(params) {
		if !strings.EqualFold(key, "taskId") {
			continue
		}
		text, ok := rawjson.Text(value)
		if key != "taskId" || id != "" || !ok {
			return "", protocol.Errorf(protocol.InvalidArguments, `%s needs one "taskId", a string`, method)
		}
		id = text
	}
	if id == "" && method != protocol.MethodTasksList {
		return "", protocol.Errorf(protocol.InvalidArguments, `%s needs one "taskId", a string`, method)
	}
	return id, nil
}

func unknownTask(id string) error {
	return protocol.Errorf(protocol.InvalidArguments, "there is no task %q", id)
}
