package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

const (
	// maxTaskResult bounds the results that are searched for a new task, in bytes. An answer that creates a task is
	// short.
	maxTaskResult = 64 << 10
	// maxTaskID bounds recorded task ids, in bytes.
	maxTaskID = 1 << 10
	// relatedTaskMark is the end of [protocol.MetaRelatedTask]; some libraries spell the slash before it \/.
	relatedTaskMark = "related-task"
)

// EnforceTaskOwner is the [dispatch.Stage] that keeps tasks to their callers: it refuses calls about tasks of others,
// records the caller of each new task, and lists only a caller's own tasks. A Go caller without a session may use
// every task.
func (t *Tasks) EnforceTaskOwner(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		id, err := ID(c.Request.Method, params)
		if id != "" && c.Request.Session != nil &&
			(t.isOthers(KeyOf(c.Instance, id), c.Caller()) || t.isHidden(c, id)) {
			err = unknown(id) // as if it did not exist, so that nothing is revealed
		}
		if err != nil {
			return nil, err
		}
		result, err := next(ctx, c, params)
		if err != nil {
			return nil, err
		}
		t.addFrom(c, params, result)
		return t.own(c, result), nil
	}
}

// addFrom records the task that a call has become. Only the server's answer counts, because a client may request a
// task in many ways. A request about an existing task creates none.
func (t *Tasks) addFrom(c *dispatch.Call, params, result json.RawMessage) {
	if len(result) > maxTaskResult || !bytes.Contains(result, []byte("taskId")) ||
		strings.HasPrefix(c.Request.Method, protocol.TaskMethods) {
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
	begun := Task{Caller: c.Caller(), Tool: c.Exchange.Tool, Node: c.Instance.Unit.Env.Node}
	if c.Instance.IsRemoteNode() {
		begun.Node = c.Instance.Key
	}
	s, key := c.Request.Session, KeyOf(c.Instance, id)
	if s == nil || s.ID == "" || !t.sessions.IfAttached(s, func() { begun.Session = s; t.add(key, begun) }) {
		t.add(key, begun)
	}
}

// own removes from a tasks/list result each task that the caller is not known to have started: with its id the caller
// could read a task whose caller is unknown.
func (t *Tasks) own(c *dispatch.Call, result json.RawMessage) json.RawMessage {
	if c.Request.Method != protocol.MethodTasksList || c.Request.Session == nil {
		return result
	}
	var list []json.RawMessage // allocated only for lists
	if json.Unmarshal(rawjson.Get(result, "tasks"), &list) != nil {
		return result
	}
	own := slices.DeleteFunc(slices.Clone(list), func(item json.RawMessage) bool {
		id, _ := rawjson.Text(rawjson.Get(item, "taskId"))
		return !t.isOwn(KeyOf(c.Instance, id), c.Caller()) || t.isHidden(c, id)
	})
	if len(own) == len(list) {
		return result
	}
	return rawjson.Set(result, "tasks", rawjson.AppendList(nil, own))
}

// Related returns the task that a message of an instance names in _meta.
func (t *Tasks) Related(i *unit.Instance, params json.RawMessage) (id string, about Task, known bool) {
	if !bytes.Contains(params, []byte(relatedTaskMark)) {
		return "", Task{}, false
	}
	id, _ = rawjson.Text(rawjson.Get(rawjson.Get(rawjson.Get(params, "_meta"), protocol.MetaRelatedTask), "taskId"))
	about, known = t.get(KeyOf(i, id))
	return id, about, known
}

// LegacyCapability is the task capability for legacy clients of all extensions. It omits lists of tasks: a client
// knows its own tasks.
const LegacyCapability = `{"cancel":{},"requests":{"tools":{"call":{}}}}`

// Makes reports whether an MCP server can run tool calls as tasks, in legacy and in modern versions.
func Makes(hs *runtime.Handshake) (legacy, modern bool) {
	if hs == nil {
		return false, false
	}
	calls := rawjson.Get(rawjson.Get(rawjson.Get(hs.Capabilities, "tasks"), "requests"), "tools")
	return rawjson.Get(calls, "call") !=
		nil, rawjson.Get(rawjson.Get(hs.Capabilities, "extensions"), protocol.ExtensionTasks) != nil
}
