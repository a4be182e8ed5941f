package httpserver

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// historyOperations read the history of calls, the audit log and the configuration.
var historyOperations = []operation{
	{
		method: "GET",
		path:   "/calls",
		summary: "The latest ended calls, newest first, without payloads; 256 are kept. " +
			"And the open questions to callers of calls in flight",
		query:  []parameter{{"last", "how many; default all"}},
		answer: callList{},
		handle: getCalls,
	},
	{
		method:  "GET",
		path:    "/calls/{id}",
		summary: "One of these calls, with the beginning of its params and result, secrets masked",
		answer:  status.PastCall{},
		handle:  getCall,
	},
	{
		method:  "GET",
		path:    "/history",
		summary: "The number and duration of calls in each step of the last hour",
		query:   []parameter{{"extension", "only calls of this extension or destination, of the last six hours"}},
		answer:  status.History{},
		handle: func(h *exthost.Host, r *http.Request) (any, error) {
			return h.Admin().History(r.FormValue("extension")), nil
		},
	},
	{
		method:  "GET",
		path:    "/audit",
		summary: "The latest records of the audit log, oldest first; none without an audit log",
		query: []parameter{{"last", "how many; default 100"}, {"denied", "true: only what was denied"},
			{"tool", "a glob of registered names"}, {"caller", "a glob"}, {"extension", "a glob"},
			{"since", "an RFC 3339 time: only calls that began then or later"}},
		answer: auditList{},
		handle: getAudit,
	},
	{
		method:  "GET",
		path:    "/config",
		summary: "The configuration in force, secrets masked",
		answer:  map[string]any{},
		handle:  func(h *exthost.Host, _ *http.Request) (any, error) { return h.Admin().Config(), nil },
	},
}

// Answers of the operations that return lists.
type (
	callList struct {
		Calls     []status.PastCall `json:"calls"`
		Questions []status.Question `json:"questions,omitempty"` // also in the status
	}
	auditList struct {
		Records []audit.Record `json:"records"`
	}
)

func getCalls(h *exthost.Host, r *http.Request) (any, error) {
	last, err := number(r, "last", math.MaxInt)
	if err != nil {
		return nil, err
	}
	return callList{h.Admin().Calls(last), h.Admin().Questions()}, nil
}

func getCall(h *exthost.Host, r *http.Request) (any, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "the id of a call is a number, not %q",
			r.PathValue("id"))
	}
	return h.Admin().PastCall(id)
}

// The default and max number of audit records in a list. A record may have 5 KiB.
const defaultRecords, maxRecords = 100, 1000

func getAudit(h *exthost.Host, r *http.Request) (any, error) {
	last, err := number(r, "last", defaultRecords)
	if err != nil {
		return nil, err
	}
	q := audit.Query{
		Last:      min(max(last, 1), maxRecords),
		Tool:      r.FormValue("tool"),
		Caller:    r.FormValue("caller"),
		Extension: r.FormValue("extension"),
	}
	if q.Denied, err = boolean(r, "denied"); err != nil {
		return nil, err
	}
	if text := r.FormValue("since"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments,
				"since is a time such as 2006-01-02T15:04:05Z, not %q", text)
		}
	}
	if err := q.Check(); err != nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%w", err)
	}
	list := auditList{Records: []audit.Record{}}
	log := h.Status().Audit
	if log == nil {
		return list, nil
	}
	for record, err := range audit.Read(r.Context(), log.Path, q) {
		if err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid,
				"the audit log cannot be read: %w; exthost calls verify says where it is broken", err)
		}
		list.Records = append(list.Records, record)
	}
	return list, nil
}
