// Package tasks records which caller started which task of an extension, and keeps tasks from other callers.
package tasks

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

const (
	// maxTasks bounds the known tasks. Beyond it, the caller with the most tasks loses its oldest.
	maxTasks = 1 << 14
)

// Key identifies a task. Instances of different sessions may choose the same ids.
type Key struct {
	extension string
	instance  string // see [unit.Instance.OwnKey]
	id        string
}

// sharedKey is a task id at any instance of an extension.
type sharedKey struct{ extension, id string }

// Task is work that an extension continues after it has answered the call. An extension sees the host as its only
// caller, so the host records the caller of each task and hides the task from others (MCP 2025-11-25,
// basic/utilities/tasks, "Task Isolation and Access Control"). All anonymous callers are one caller.
type Task struct {
	Caller  string
	Tool    string            // registered name of the tool whose call began the task; "": another request
	Node    string            // the cluster node that has the task; "": this host
	Session *protocol.Session // notified of its status; nil after the session or the task has ended
}

// Sessions are notified of the status of their tasks.
type Sessions interface {
	// IfAttached runs f if s is attached, and reports whether it is. The session ends only after f has returned.
	IfAttached(s *protocol.Session, f func()) (attached bool)
}

// Tasks maps tasks to their callers. A task that is not in the map, such as a remote server's task from before the
// host was started, may be used by any caller that knows its id. Tasks is safe for concurrent use.
type Tasks struct {
	sessions Sessions

	mu    sync.Mutex // guards the fields below
	known map[Key]Task
	of    map[string][]Key // by caller, the oldest first
	// Number of tasks with the same id that each caller has, at all instances of an extension together: instances may
	// share a store of tasks.
	shared map[sharedKey]map[string]int
}

// New returns a set without tasks.
func New(s Sessions) *Tasks {
	return &Tasks{
		sessions: s,
		known:    make(map[Key]Task),
		of:       make(map[string][]Key),
		shared:   make(map[sharedKey]map[string]int),
	}
}

func (t *Tasks) add(key Key, begun Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(key) // a restarted extension may use the same ids again
	if len(t.known) == maxTasks {
		var most []Key
		for _, keys := range t.of {
			if len(keys) > len(most) {
				most = keys
			}
		}
		t.forget(most[0])
	}
	t.known[key] = begun
	t.of[begun.Caller] = append(t.of[begun.Caller], key)
	t.count(key, begun.Caller, 1)
}

func (t *Tasks) count(key Key, caller string, by int) {
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

func (t *Tasks) forget(key Key) {
	known, ok := t.known[key]
	if !ok {
		return
	}
	delete(t.known, key)
	t.count(key, known.Caller, -1)
	keys := t.of[known.Caller]
	if at := slices.Index(keys, key); at == 0 {
		keys = keys[1:] // the usual case, which needs no copy
	} else {
		keys = slices.Delete(keys, at, at+1)
	}
	if t.of[known.Caller] = keys; len(keys) == 0 {
		delete(t.of, known.Caller)
	}
}

func (t *Tasks) get(key Key) (known Task, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok = t.known[key]
	return known, ok
}

// isOthers reports whether only other callers started the task: at the instance of key or, if that instance has no
// known task with the id, at other instances, which may share a store of tasks with it.
func (t *Tasks) isOthers(key Key, caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[key]; ok {
		return known.Caller != caller
	}
	callers := t.shared[sharedKey{key.extension, key.id}]
	return len(callers) > 0 && callers[caller] == 0
}

// isOwn reports whether the caller is known to have started the task: at the instance of key or, if that instance has
// no known task with the id, at any other.
func (t *Tasks) isOwn(key Key, caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[key]; ok {
		return known.Caller == caller
	}
	return t.shared[sharedKey{key.extension, key.id}][caller] > 0
}

// Resolve returns c with the extension that carries out the task. view is what the caller sees.
func (t *Tasks) Resolve(c *protocol.Call, id string, view *toolset.View) (*protocol.Call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, ok := t.latest(c, id, view)
	if !ok {
		return nil, unknown(id)
	}
	out := *c
	out.Extension, out.Node = key.extension, cmp.Or(c.Node, t.known[key].Node)
	return &out, nil
}

// AtNode returns c, a call to an extension, with the node of the task that it is about.
func (t *Tasks) AtNode(c *protocol.Call) *protocol.Call {
	id, _ := ID(c.Method, c.Params)
	if id == "" || c.Node != "" {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key, ok := t.latest(c, id, nil)
	if !ok || t.known[key].Node == "" {
		return c
	}
	out := *c
	out.Node = t.known[key].Node
	return &out
}

// Begun returns an error unless the caller of c is known to have started the task that c is about.
func (t *Tasks) Begun(c *protocol.Call) error {
	id, err := ID(c.Method, c.Params)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.latest(c, id, nil); !ok {
		return unknown(id)
	}
	return nil
}

// isHidden reports whether the caller's toolset hides the task. Without a task of that id at the instance, it decides
// by the caller's latest task of that id at the extension; with none, the task is hidden.
func (t *Tasks) isHidden(c *dispatch.Call, id string) bool {
	if c.View == nil {
		return false
	}
	key := KeyOf(c.Instance, id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[key]; ok {
		return !c.View.Has(key.extension, known.Tool)
	}
	_, shown := t.latest(&protocol.Call{Session: c.Request.Session, Extension: key.extension}, id, c.View)
	return !shown
}

// ToolOf returns the tool whose call began the task that c is about, "" if none.
func (t *Tasks) ToolOf(c *protocol.Call) string {
	id, _ := ID(c.Method, c.Params)
	if id == "" {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key, _ := t.latest(c, id, nil)
	return t.known[key].Tool
}

// latest returns the caller's latest task with an id that view shows, at the call's extension if it names one.
func (t *Tasks) latest(c *protocol.Call, id string, view *toolset.View) (key Key, ok bool) {
	caller := ""
	if c.Session != nil {
		caller = c.Session.Caller
	}
	for _, key := range slices.Backward(t.of[caller]) {
		if key.id == id && (c.Extension == "" || c.Extension == key.extension) &&
			view.Has(key.extension, t.known[key].Tool) {
			return key, true
		}
	}
	return Key{}, false
}

// Watcher returns the session to notify of a task's status, nil if none, and the tool whose call began the task. Once
// the task has ended, there is no session to notify any more.
func (t *Tasks) Watcher(key Key, status string) (s *protocol.Session, tool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[key]
	if !ok {
		return nil, ""
	}
	to := known.Session
	switch status {
	case "completed", "failed", "cancelled":
		known.Session = nil
		t.known[key] = known
	}
	return to, known.Tool
}

// Drop removes an ended session from its tasks. The tasks stay with their caller.
func (t *Tasks) Drop(s *protocol.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, known := range t.known {
		if known.Session == s {
			known.Session = nil
			t.known[key] = known
		}
	}
}

// KeyOf returns the key of a task id at an instance.
func KeyOf(i *unit.Instance, id string) Key {
	return Key{extension: i.Unit.ID(), instance: i.OwnKey(), id: id}
}

// ID returns the id of the task that a request is about, "" if none. It refuses params that the extension may read
// differently: with two ids, a key in another case, or an id that is no string.
func ID(method string, params json.RawMessage) (id string, err error) {
	if !strings.HasPrefix(method, protocol.TaskMethods) {
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

func unknown(id string) error {
	return protocol.Errorf(protocol.InvalidArguments, "%w %q", protocol.ErrNoTask, id)
}
