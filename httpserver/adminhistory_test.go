package httpserver

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// The API returns payloads, callers, counts and audit records of calls, with secrets masked.
func TestHistoryAPI(t *testing.T) {
	s, _ := governedServer(t)
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_say/call", `{"n": 1, "token":"`+secret+`"}`, nil)
	askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_rm/call", `{}`, nil)
	var list struct{ Calls []status.PastCall }
	if code := askAdmin(t, s, "GET", "/api/v1/calls", "", &list); code != http.StatusOK || len(list.Calls) != 2 ||
		list.Calls[0].Outcome != "rejected" || list.Calls[0].Policy != "rm" || list.Calls[1].Tool != "ext_kit_say" {
		t.Fatalf("calls: %d %+v", code, list)
	}
	if askAdmin(t, s, "GET", "/api/v1/calls?last=1", "", &list); len(list.Calls) != 1 {
		t.Errorf("%d calls", len(list.Calls))
	}
	var call status.PastCall
	if code := askAdmin(t, s, "GET", "/api/v1/calls/1", "", &call); code != http.StatusOK ||
		!strings.Contains(call.Request.Text, `"n": 1`) ||
		strings.Contains(call.Request.Text+call.Response.Text, secret) ||
		!strings.Contains(call.Response.Text, "content") {
		t.Errorf("call: %d %+v %+v", code, call.Request, call.Response)
	}
	for path, want := range map[string]int{
		"/calls/9":              http.StatusNotFound,
		"/calls/x":              http.StatusBadRequest,
		"/calls?last=x":         http.StatusBadRequest,
		"/audit?tool=[":         http.StatusBadRequest,
		"/audit?denied=perhaps": http.StatusBadRequest,
		"/audit?since=noon":     http.StatusBadRequest,
	} {
		if code := askAdmin(t, s, "GET", "/api/v1"+path, "", nil); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
	var history status.History
	askAdmin(t, s, "GET", "/api/v1/history", "", &history)
	calls, denied := int64(0), int64(0)
	for _, p := range history.Points {
		calls, denied = calls+p.Calls, denied+p.Denied
	}
	if calls != 2 || denied != 1 {
		t.Errorf("history: %+v", history)
	}
	var tool Tool
	if askAdmin(t, s, "GET", "/api/v1/tools/ext_kit_say", "", &tool); tool.Use == nil || tool.Use.Calls != 1 ||
		tool.Use.Latency == nil {
		t.Errorf("tool: %+v", tool.Use)
	}
	var log struct{ Records []audit.Record }
	eventually(t, func() bool { // the log is written in the background
		code := askAdmin(t, s, "GET", "/api/v1/audit?denied=true", "", &log)
		return code == http.StatusOK && len(log.Records) == 1 && log.Records[0].Tool == "ext_kit_rm"
	})
	at := log.Records[0].Time
	for since, want := range map[time.Time]int{at: 1, at.Add(time.Hour): 0} {
		path := "/api/v1/audit?denied=true&since=" + url.QueryEscape(since.Format(time.RFC3339Nano))
		if code := askAdmin(t, s, "GET", path, "", &log); code != http.StatusOK || len(log.Records) != want {
			t.Errorf("%s: %d, %d records", path, code, len(log.Records))
		}
	}
	var config map[string]any
	if code := askAdmin(t, s, "GET", "/api/v1/config", "", &config); code != http.StatusOK || config["plugins"] == nil {
		t.Errorf("config: %d %+v", code, config)
	}
}

// A call with the operator's token over HTTP is made by the operator, for policies too.
func TestOperatorCallsAsOperator(t *testing.T) {
	h := openKit(t, exthost.Options{})
	addr := serve(t, Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "operators-own"}, nil)
	r := send(t, "POST", "http://"+addr+"/api/v1/tools/ext_kit_say/call",
		http.Header{"Authorization": {"Bearer operators-own"}}, `{"n":1}`)
	if r.StatusCode != http.StatusOK {
		t.Fatal(r.Status)
	}
	if c := h.Admin().Calls(1)[0]; c.Caller != clienttoken.Operator {
		t.Errorf("%+v", c)
	}
	if r := send(t, "POST", "http://"+addr+"/api/v1/tools/ext_kit_say/call", http.Header{},
		`{}`); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %s", r.Status)
	}
	if _, err := h.Admin().PastCall(2); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("a call without the token was made: %v", err)
	}
}
