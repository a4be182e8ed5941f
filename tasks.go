package exthost

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

const (
	taskMethods = "tasks/"                     // what begins the methods about tasks
	taskList    = "tasks/list"                 // 2025-11-25 only
	taskStatus  = "notifications/tasks/status" // of one task, for the session that began it
	// tasksExtension is what tasks are in 2026-07-28: an extension of MCP's, which
	// clients and servers declare.
	tasksExtension = "io.modelcontextprotocol/tasks"
	// relatedTask is the member of _meta by which a server says what task it is about.
	relatedTask = "io.modelcontextprotocol/related-task"
	// maxTasks bounds how many tasks are known. Beyond it those who have begun most
	// lose their oldest.
	maxTasks = 1 << 14
	// maxTaskID is how long the id of a task may be, in bytes, for it to be known.
	maxTaskID = 1 << 10
)

// taskKey names a task. Instances for one session each may choose the same ids.
type taskKey struct {
	extension, instance string
	older               bool
	id                  string
}

// task is what an extension goes on with when the call is answered. Extensions that
// serve several callers know one, the host: whose a task is, is known here, and it is
// nobody else's business (MCP 2025-11-25, basic/utilities/tasks, "Task Isolation and
// Access Control"). Callers without a name are one.
type task struct {
	caller  string
	session *protocol.Session // which is told its status; nil when it is over, or the task
}

// tasks are those that have begun, as far as it is remembered. One that is not, say
// of a server elsewhere which outlived the host, is anybody's who knows its id.
type tasks struct {
	mu    sync.Mutex
	known map[taskKey]task
	of    map[string][]taskKey // a caller's, the oldest first
}

func newTasks() *tasks {
	return &tasks{known: make(map[taskKey]task), of: make(map[string][]taskKey)}
}

// add notes a task that has begun.
func (t *tasks) add(key taskKey, begun task) {
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
}

func (t *tasks) forget(key taskKey) {
	known, ok := t.known[key]
	if !ok {
		return
	}
	delete(t.known, key)
	keys := t.of[known.caller]
	if at := slices.Index(keys, key); at == 0 {
		keys = keys[1:] // mostly, and of many
	} else {
		keys = slices.Delete(keys, at, at+1)
	}
	if t.of[known.caller] = keys; len(keys) == 0 {
		delete(t.of, known.caller)
	}
}

func (t *tasks) get(key taskKey) (known task, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok = t.known[key]
	return known, ok
}

// isOthers reports whether somebody else began the task.
func (t *tasks) isOthers(key taskKey, caller string) bool {
	known, ok := t.get(key)
	return ok && known.caller != caller
}

// resolve returns a call about the task of that id as it goes to the extension that
// carries it out.
func (t *tasks) resolve(c *protocol.Call, id string) (*protocol.Call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range slices.Backward(t.of[callerOf(c)]) {
		if key.id == id {
			out := *c
			out.Extension = key.extension
			return &out, nil
		}
	}
	return nil, noTask(id)
}

func callerOf(c *protocol.Call) string {
	if c.Session == nil {
		return ""
	}
	return c.Session.Caller
}

// aboutTask returns the id of the task that a request is about, "" for none. There must
// be one way to read it: the extension may take another of two, or any case.
func aboutTask(method string, params json.RawMessage) (id string, err error) {
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
	return id, nil
}

func noTask(id string) error {
	return protocol.Errorf(protocol.InvalidArguments, "there is no task %q", id)
}

// told returns the session that is to hear a task's status, nil for none. Of one that
// is over nothing more is told.
func (t *tasks) told(key taskKey, status string) *protocol.Session {
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

// left forgets a session that has ended, but not what its caller began.
func (t *tasks) left(s *protocol.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, known := range t.known {
		if known.session == s {
			known.session = nil
			t.known[key] = known
		}
	}
}

// taskKey names the task of that id.
func (i *instance) taskKey(id string) taskKey {
	key := taskKey{extension: i.extension.candidate.ID, older: i.older, id: id}
	if i.extension.options.Instances.PerSession() {
		key.instance = i.key
	}
	return key
}

// began notes that the call has become a task.
func (r *routed) began(i *instance, params, result json.RawMessage) {
	var created json.RawMessage
	switch {
	case bytes.Contains(params, []byte(`"task"`)) && rawjson.Get(params, "task") != nil:
		created = rawjson.Get(result, "task")
	case bytes.Contains(params, []byte(tasksExtension)) && string(rawjson.Get(result, "resultType")) == `"task"`:
		created = result
	}
	id, ok := rawjson.Text(rawjson.Get(created, "taskId"))
	if !ok || len(id) > maxTaskID {
		return
	}
	begun := task{caller: callerOf(r.call)}
	if s := r.call.Session; s != nil && s.ID != "" { // one that can be reached later
		begun.session = s
	}
	r.host.tasks.add(i.taskKey(id), begun)
}

// taskOf returns the task that a message of the extension says it is about.
func (i *instance) taskOf(params json.RawMessage) (about task, known bool) {
	if !bytes.Contains(params, []byte(relatedTask)) {
		return task{}, false
	}
	id, _ := rawjson.Text(rawjson.Get(rawjson.Get(rawjson.Get(params, "_meta"), relatedTask), "taskId"))
	return i.extension.host.tasks.get(i.taskKey(id))
}

// mayAsk refuses what is asked about a task of somebody else's, whose existence is not
// given away. A Go caller without a session may ask about all.
func (r *routed) mayAsk(i *instance, params json.RawMessage) error {
	id, err := aboutTask(r.call.Method, params)
	if id != "" && r.call.Session != nil && r.host.tasks.isOthers(i.taskKey(id), r.call.Session.Caller) {
		return noTask(id)
	}
	return err
}

// ownTasks leaves in a list what is not known to be somebody else's.
func (r *routed) ownTasks(i *instance, result json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if r.call.Method != taskList || r.call.Session == nil || json.Unmarshal(rawjson.Get(result, "tasks"), &list) != nil {
		return result
	}
	own := slices.DeleteFunc(slices.Clone(list), func(item json.RawMessage) bool {
		id, _ := rawjson.Text(rawjson.Get(item, "taskId"))
		return r.host.tasks.isOthers(i.taskKey(id), r.call.Session.Caller)
	})
	if len(own) == len(list) {
		return result
	}
	return rawjson.Set(result, "tasks", append(append([]byte{'['}, bytes.Join(raw(own), []byte(","))...), ']'))
}

// What is offered of tasks, in either era, where some extension does. They are not
// listed for all extensions together: a client knows those that it began.
const (
	tasksOffered          = `{"cancel":{},"requests":{"tools":{"call":{}}}}`
	tasksExtensionOffered = `{"` + tasksExtension + `":{}}`
)

// makesTasks reports of either era whether an MCP server makes tasks of tool calls.
func makesTasks(hs *runtime.Handshake) (older, newer bool) {
	if hs == nil {
		return false, false
	}
	calls := rawjson.Get(rawjson.Get(rawjson.Get(hs.Capabilities, "tasks"), "requests"), "tools")
	return rawjson.Get(calls, "call") != nil, rawjson.Get(rawjson.Get(hs.Capabilities, "extensions"), tasksExtension) != nil
}
