package peertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/secret/clienttoken"
)

// asking asks about each note in the client. The question about one that ends with soon expires soon.
const asking = `plugins:
  - name: ask
    category: authorization
    builtin: cel
    config: {when: 'tool == "ext_notes_add" && !arguments.text.endsWith("soon")', action: ask, where: client}
  - name: ask-briefly
    category: authorization
    builtin: cel
    config:
      when: tool == "ext_notes_add" && arguments.text.endsWith("soon")
      action: ask
      where: client
      expiry: 300ms
`

// ending is a way in which the question about a call can end.
type ending struct {
	name   string
	answer string // of the person
	soon   bool   // the question expires before the answer
	told   func(*testing.T, answer)
	record string // of the audit log; NAME is the client
}

var expired = ending{
	"time out", "accept", true, fails("nobody approved it within 300ms"), "denied approval_expired",
}

var endings = []ending{
	{"accept", "accept", false, says("accept"), "ok NAME client"},
	{"decline", "decline", false, fails("not approved by "), "denied approval_denied NAME client"},
	{
		"cancel", "cancel", false, fails("the question was dismissed"),
		"denied approval_denied NAME: the question was dismissed client",
	},
	expired,
	{"disconnect", "gone", false, nil, "failed"},
}

// visitor is a client at an endpoint, with a name and a token of its own: one that answers so fast ten times in a row
// is asked no more.
type visitor struct {
	name, token string
	endpoint    endpoint
	report      func(t *testing.T, h *host, p endpoint, calls []call) report
	endings     []ending
}

func visitors() (all []visitor) {
	for _, client := range clients {
		for _, p := range endpoints {
			if p.Transport == "sse" || !slices.Contains(client.versions, p.Versions) {
				continue
			}
			v := visitor{
				name:     strings.Join([]string{client.name, p.Transport, p.Versions}, "-"),
				token:    clienttoken.New(),
				endpoint: p,
				report:   client.report,
				endings:  slices.Clone(endings),
			}
			if p.Versions != "legacy" { // a modern call outlives the request that makes it, until the question expires
				last := &v.endings[len(v.endings)-1]
				last.soon, last.record = true, expired.record
			}
			if client.name == "inspector" { // its command line shows no forms
				v.endings = []ending{expired}
			}
			all = append(all, v)
		}
	}
	return all
}

// note is the argument of the call that is to end like this.
func (v *visitor) note(e ending) string {
	text := v.name + ", " + e.name
	if e.soon {
		text += ", soon"
	}
	return text
}

// TestClientsAreAsked has every client show the form for an approval, in each way in which its versions ask: each
// question has one outcome, and the tool runs after a yes alone. A client without forms waits for operators.
func TestClientsAreAsked(t *testing.T) {
	h := newHost(t, bundled(t))
	log, all := filepath.Join(h.home, "audit"), visitors()
	settings := asking + "audit: {path: " + log + "}\nserver:\n  clients:\n"
	for _, v := range all {
		settings += fmt.Sprintf("    %s: {token_hash: %s, approves: [write]}\n", v.name, clienttoken.Hash(v.token))
	}
	user := filepath.Join(h.home, ".config", "exthost")
	if err := os.MkdirAll(user, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(user, "exthost.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	url := h.listen(t)
	var accepted []string
	for _, v := range all {
		t.Run(strings.ReplaceAll(v.name, "-", "/"), func(t *testing.T) {
			if len(v.endings) > 1 {
				accepted = append(accepted, v.note(endings[0]))
			}
			v.isAsked(t, h, url, log)
		})
	}
	if diff := cmp.Diff(accepted, h.notes(t)); diff != "" {
		t.Errorf("what the tool has done (-want +got):\n%s", diff)
	}
}

// isAsked makes a call for each ending.
func (v *visitor) isAsked(t *testing.T, h *host, url, log string) {
	p := h.at(v.endpoint, url)
	if p.Transport == "stdio" {
		p.Command = append(p.Command, "--as", v.name)
		p.Env["HOME"], p.Env[peersVar] = h.home, string(h.peers) // as the host has them, which it shares
	} else {
		p.Token = v.token
	}
	if len(v.endings) > 1 {
		p.person = func(form string) (answer string) {
			for i, e := range v.endings {
				if !strings.Contains(form, v.note(e)) {
					continue
				}
				if e.soon && e.answer != "gone" {
					v.outcomes(t, log, i+1) // the person answers too late
				}
				return e.answer
			}
			t.Errorf("the person does not see which call it is: %s", form)
			return "cancel"
		}
	}
	var calls []call
	for _, e := range v.endings {
		calls = append(calls, call{"ext_notes_add", args{"text": v.note(e)}})
	}
	got := v.report(t, h, p, calls)
	records := v.outcomes(t, log, len(calls))
	for i, e := range v.endings {
		t.Run(e.name, func(t *testing.T) {
			if want := strings.ReplaceAll(e.record, "NAME", v.name); records[i] != want {
				t.Errorf("the audit log has %q, want %q", records[i], want)
			}
			if e.told == nil {
				return
			}
			if i >= len(got.Calls) {
				t.Fatal("the client has no answer")
			}
			e.told(t, got.Calls[i])
		})
	}
}

// outcomes waits until the audit log has n calls of the client, and returns who has answered how.
func (v *visitor) outcomes(t *testing.T, log string, n int) (lines []string) {
	t.Helper()
	q := audit.Query{Caller: v.name, Tool: "ext_notes_add", Follow: true}
	for r, err := range audit.Read(deadline(t), log, q) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprint(r.Outcome, " ", r.Code, " ", r.ApprovedBy, " ",
			r.AnsweredIn)), " "))
		if len(lines) == n {
			return lines
		}
	}
	t.Fatalf("the audit log has %d of %d calls: %q", len(lines), n, lines)
	return nil
}

// notes returns the notes that were added, the oldest first.
func (h *host) notes(t *testing.T) (texts []string) {
	argv := []string{h.program, "call", "ext_notes_search", "limit=200", "-o", "json", "--extensions", h.extensions}
	out, err := h.command(argv).Output()
	var v struct {
		Result struct {
			StructuredContent struct{ Notes []struct{ Text string } }
		}
	}
	if err != nil || json.Unmarshal(out, &v) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, n := range slices.Backward(v.Result.StructuredContent.Notes) {
		texts = append(texts, n.Text)
	}
	return texts
}
