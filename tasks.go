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
	// Where it stands it may be spelled otherwise: some libraries write \/ for a slash.
	relatedTask     = "io.modelcontextprotocol/related-task"
	relatedTaskMark = "related-task"
	// maxTasks bounds how many tasks are known. Beyond it those who have begun most
	// lose their oldest.
	maxTasks = 1 << 14
	// maxTaskResult is how long the answer may be that begins a task, in bytes: what is
	// longer is a result, and is not searched.
	maxTaskResult = 64 << 10
	// maxTaskID is how long the id of a task may be, in bytes, for it to be known.
	maxTaskID = 1 << 10
)

// taskKey names a task. Instances for one session each may choose the same ids.
type taskKey struct {
	extension, instance string
	older               bool
	id                  string
}

// sharedKey is the id of a task at an extension, whichever instance it came from.
type sharedKey struct{ extension, id string }

// task is what an extension goes on with when the call is answered. Extensions that
// serve several callers know one, the host: whose a task is, is known here, and it is
// nobody else's business (MCP 2025-11-25, basic/utilities/tasks, "Task Isolation and
// Access Control"). Callers without a name are one.
type task struct {
	caller  string
	tool    string            // whose call began it, by its registered name; "" for another request
	session *protocol.Session // which is told its status; nil when it is over, or the task
}

// tasks are those that have begun, as far as it is remembered. One that is not, say
// of a server elsewhere which outlived the host, is anybody's who knows its id.
type tasks struct {
	mu    sync.Mutex
	known map[taskKey]task
	of    map[string][]taskKey // a caller's, the oldest first
	// How many of each caller's have an id at all the instances of an extension: what is
	// behind several instances may be one store of tasks.
	shared map[sharedKey]map[string]int
}

func newTasks() *tasks {
	return &tasks{known: make(map[taskKey]task), of: make(map[string][]taskKey), shared: make(map[sharedKey]map[string]int)}
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
	t.count(key, begun.caller, 1)
}

func (t *tasks) count(key taskKey, caller string, by int) {
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

func (t *tasks) forget(key taskKey) {
	known, ok := t.known[key]
	if !ok {
		return
	}
	delete(t.known, key)
	t.count(key, known.caller, -1)
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

// isOthers reports whether somebody else began the task: that of the instance, or one
// that others began at another instance, which this one may know as well, and the
// caller did not.
func (t *tasks) isOthers(key taskKey, caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[key]; ok {
		return known.caller != caller
	}
	callers := t.shared[sharedKey{key.extension, key.id}]
	return len(callers) > 0 && callers[caller] == 0
}

// isOwn reports whether the caller is known to have begun the task, at whatever instance.
func (t *tasks) isOwn(key taskKey, caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[key]; ok {
		return known.caller == caller
	}
	return t.shared[sharedKey{key.extension, key.id}][caller] > 0
}

// resolve returns a call about the task of that id as it goes to the extension that
// carries it out.
func (t *tasks) resolve(c *protocol.Call, id string) (*protocol.Call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, ok := t.latest(c, id)
	if !ok {
		return nil, noTask(id)
	}
	out := *c
	out.Extension = key.extension
	return &out, nil
}

// toolOf returns the tool whose call began the task that c is about, "" for none:
// what policies say of a tool goes for what becomes of its calls.
func (t *tasks) toolOf(c *protocol.Call) string {
	id, _ := aboutTask(c.Method, c.Params)
	if id == "" {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key, _ := t.latest(c, id)
	return t.known[key].tool
}

// latest is the caller's latest task of that id, at the extension that is named.
func (t *tasks) latest(c *protocol.Call, id string) (key taskKey, ok bool) {
	for _, key := range slices.Backward(t.of[callerOf(c)]) {
		if key.id == id && (c.Extension == "" || c.Extension == key.extension) {
			return key, true
		}
	}
	return taskKey{}, false
}

func callerOf(c *protocol.Call) string {
	if c.Session == nil {
		return ""
	}
	return c.Session.Caller
}

// aboutTask returns the id of the task that a request is about, "" for none. There must
// be one way to read it: the extension may take another of two, any case, or params
// that are a list.
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
	if id == "" && method != taskList {
		return "", protocol.Errorf(protocol.InvalidArguments, `%s needs one "taskId", a string`, method)
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

// began notes that the call has become a task. It is the server that says so: what it
// took for the wish to have one may be spelled in many ways. What is said about a task
// is none that begins.
func (r *routed) began(i *instance, params, result json.RawMessage) {
	if len(result) > maxTaskResult || !bytes.Contains(result, []byte("taskId")) || strings.HasPrefix(r.call.Method, taskMethods) {
		return
	}
	var created json.RawMessage
	switch {
	case string(rawjson.Get(result, "resultType")) == `"task"`:
		created = result
	case rawjson.Get(params, "task") != nil:
		created = rawjson.Get(result, "task")
	}
	id, ok := rawjson.Text(rawjson.Get(created, "taskId"))
	if !ok || len(id) > maxTaskID {
		return
	}
	begun, h := task{caller: callerOf(r.call), tool: r.exchange.Tool}, r.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := r.call.Session; s != nil && s.ID != "" && h.sessions[s] != nil { // one that can be reached later; or nothing would ever forget it
		begun.session = s
	}
	h.tasks.add(i.taskKey(id), begun)
}

// taskOf returns the task that a message of the extension says it is about.
func (i *instance) taskOf(params json.RawMessage) (id string, about task, known bool) {
	if !bytes.Contains(params, []byte(relatedTaskMark)) {
		return "", task{}, false
	}
	id, _ = rawjson.Text(rawjson.Get(rawjson.Get(rawjson.Get(params, "_meta"), relatedTask), "taskId"))
	about, known = i.extension.host.tasks.get(i.taskKey(id))
	return id, about, known
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

// ownTasks leaves in a list what the caller is known to have begun: of the others it
// would learn the ids, which is all that it takes to read those that nobody is known to
// have begun.
func (r *routed) ownTasks(i *instance, result json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if r.call.Method != taskList || r.call.Session == nil || json.Unmarshal(rawjson.Get(result, "tasks"), &list) != nil {
		return result
	}
	own := slices.DeleteFunc(slices.Clone(list), func(item json.RawMessage) bool {
		id, _ := rawjson.Text(rawjson.Get(item, "taskId"))
		return !r.host.tasks.isOwn(i.taskKey(id), r.call.Session.Caller)
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
