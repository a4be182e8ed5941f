package httpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// hostile is text with markup and with bidirectional control characters.
const hostile = `<img src=x onerror="window.hit=1"><script>window.hit=2</script>` + "\u202egnp.exe"

// fleet is a directory of extensions: one works, one is hostile, one fails, one lacks a requirement, and the others
// have 1,000 tools together.
func fleet(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(id, manifest string) {
		t.Helper()
		writeManifest(t, dir, id, manifest)
	}
	write("kit", kit)
	head := "[plugin]\nid = %q\nversion = \"1.4.2\"\ndescription = %q\n"
	write("evil", fmt.Sprintf(head, "evil",
		hostile)+"[transport]\nkind = \"exec\"\ncommand = \"true\"\n[[tools]]\nname = \"say\"\ndescription = "+
		"\"\"\"<b>bold</b> "+hostile+
		"\"\"\"\ncommand = [\"sh\", \"-c\", \"printf '%s\\\\n' '<img src=x onerror=window.hit=3> \u202etxt' >&2; "+
		"echo '<i>x</i>'\"]\ninput_schema = { type = \"object\", required = [\"text\"], properties = { "+
		"text = { type = \"string\", description = \"<b>\" }, n = { type = \"integer\" }, "+
		"mode = { enum = [\"slow\", 7] }, loud = { type = \"boolean\", default = true }, "+
		"more = { type = \"array\" } } }\n")
	write("pdf", fmt.Sprintf(head, "pdf",
		"Reads PDF files.")+"[capabilities]\ntools = [\"text\"]\n[transport]\ncommand = \"./pdf\"\n[requires]\nbins "+
		"= [\"pdftotext-of-tomorrow\"]\nhint = { pdftotext-of-tomorrow = \"apt install poppler-utils\" }\n")
	write("github", fmt.Sprintf(head, "github",
		"Issues and pull requests.")+
		"[capabilities]\ntools = [\"pr\"]\n[transport]\ncmd = [\"sh\", \"-c\", \"echo 'panic: nil map in handler' "+
		">&2; echo 'goroutine 1 [running]:' >&2; exit 137\"]\n")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write("flaky", fmt.Sprintf(head, "flaky",
		"Falls over now and then.")+
		fmt.Sprintf("[transport]\ncommand = %q\nenv = { %s = \"peer\" }\nprotocol = \"mcp\"\n", exe,
			processtest.ScriptVar))
	for i := range 20 {
		id := fmt.Sprintf("%s%02d", []string{"weather", "notes", "search", "mail"}[i%4], i)
		m := fmt.Sprintf(head, id, "Does what its name says.") + "[transport]\nkind = \"exec\"\ncommand = \"true\"\n"
		for j := range 50 {
			m += fmt.Sprintf("[[tools]]\nname = \"tool_%02d\"\ndescription = \"Returns item %d of what %s knows, "+
				"with its source and the time at which it was last seen.\"\ncommand = [\"cat\"]\n", j, j, id)
		}
		write(id, m)
	}
	return dir
}

// aside is a cluster whose other nodes share nothing.
type aside struct{ peers.Cluster }

func (aside) Open(context.Context, peers.Host) error { return nil }
func (aside) Offer([]peers.Offer)                    {}
func (aside) Places() []*peers.Place                 { return nil }
func (aside) EndSession(*protocol.Session)           {}
func (aside) Waiting(int)                            {}
func (aside) Close(context.Context) error            { return nil }
func (aside) Status() *status.Cluster {
	return &status.Cluster{
		Name:   "main",
		Node:   "web",
		Server: "tls://hub.example:7822",
		TLS:    true,
		RTT:    400 * time.Microsecond,
		Nodes: []status.Node{
			{Name: "gpu1", State: status.NodeReady, Since: time.Now(), Version: "0.2.0", RTT: 620 * time.Microsecond,
				Tools: 3, Out: 1904, In: 31, Failed: 2,
				Shares: []status.Shared{{Extension: "search", As: "replicas"}, {Extension: "notes", As: "mine"}}},
			{
				Name:    "laptop",
				State:   status.NodeAway,
				Since:   time.Now().Add(-12 * time.Second),
				Version: "0.1.0",
				Note:    hostile,
				Shares:  []status.Shared{},
			},
		},
	}
}

// serveFleet serves the dashboard of a fleet and returns its URL, the host, and the files of its configuration.
func serveFleet(t *testing.T) (url string, h *exthost.Host, files *desk) {
	t.Helper()
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{fleet(t)}
	members := []governance.Member{
		{
			Spec:   governance.Spec{Name: "asks before failing", Category: governance.Authorization},
			Policy: asking{},
		},
		{
			Spec: governance.Spec{
				Name:     "no_dying",
				Category: governance.Content,
				Flows:    []governance.Flow{governance.Request},
			},
			Policy: weekday("_die"),
		},
		{
			Spec: governance.Spec{
				Name:     "quiet hours",
				Category: governance.RateLimiting,
				Mode:     governance.ModeShadow,
			},
			Policy: weekday("_say"),
		},
	}
	o := exthost.Options{Policies: members, Cluster: aside{}}
	rulings(&o, cfg)
	files = newDesk(t, "# mine\ntoolsets:\n  talk:\n    include:\n      - ext_kit_* # all of it\n"+
		"    exclude: [\"*_fail\"]\n    tools: {ext_kit_say: {describe: Says it aloud.}}\n")
	files.states(t, &o, cfg)
	h = openHost(t, cfg, o)
	addr := serve(t, Options{
		Backend:       h,
		Admin:         Admin(h, files),
		Clients:       h.Clients(),
		Toolsets:      h.Toolsets(),
		OperatorToken: "operators-own",
	}, nil)
	return "http://" + addr + "/ui/", h, files
}

// TestDashboard visits all views in a browser.
func TestDashboard(t *testing.T) {
	url, h, files := serveFleet(t)
	b := openBrowser(t)
	b.look(1440, 900, "light")
	b.open(url + "#token=operators-own")
	b.await(`document.querySelector(".phase").textContent === "live" && document.querySelectorAll(".trouble").length >= 2`)
	if got := b.eval(`location.hash + sessionStorage.getItem("exthost-token")`); strings.Contains(got, "#token") ||
		!strings.Contains(got, "operators-own") {
		t.Errorf("the token is not put away: %s", got)
	}
	call := func(tools ...string) {
		t.Helper()
		for _, tool := range tools {
			_, _ = h.Call(t.Context(), tool, map[string]string{"text": hostile})
		}
	}
	call("ext_kit_say", "ext_kit_grumble", "ext_kit_die", "ext_evil_say", "ext_weather00_tool_07", "ext_nobody_knows")
	for i := range 60 {
		call(fmt.Sprintf("ext_%s_tool_%02d", []string{"weather00", "notes01", "search02", "mail03"}[i%4], i%50))
	}
	crash(t, h, "flaky")
	ask, asked := context.WithCancel(t.Context())
	var waiting []chan struct{}
	for _, text := range []string{"rm -r build", hostile} {
		ended := make(chan struct{})
		waiting = append(waiting, ended)
		go func() { defer close(ended); _, _ = h.Call(ask, "ext_kit_fail", map[string]string{"cmd": text}) }()
	}
	defer func() {
		asked()
		for _, ended := range waiting {
			get(t, ended, "the end of a call that was asked about")
		}
	}()

	t.Run("overview", func(t *testing.T) {
		b.t = t
		b.await(`document.querySelectorAll(".calls li").length >= 14`)
		b.await(`[...document.querySelectorAll(".trouble")].some((n) => n.innerText.includes("pdftotext-of-tomorrow") && n.innerText.includes("poppler-utils"))`)
		b.await(`[...document.querySelectorAll(".trouble")].some((n) => n.innerText.includes("waits") && n.innerText.includes("rm -r build"))`)
		b.await(`[...document.querySelectorAll(".trouble")].some((n) => n.innerText.includes("panic: nil map in handler") && n.innerText.includes("exthost logs github"))`)
		b.await(`[...document.querySelectorAll(".trouble")].some((n) => n.innerText.includes("crashed") && n.innerText.includes("SIGKILL") && n.innerText.includes("and ready again"))`)
		b.await(`document.querySelectorAll(".tile .line[d^=M]").length >= 3`)
		b.await(`[...document.querySelectorAll(".tile")].some((n) => n.innerText.includes("Denied") && /[1-9]\d* in all/.test(n.innerText))`)
		b.await(`[...document.querySelectorAll(".extensions tbody tr")].some((n) => n.innerText.includes("kit") && Number.parseFloat(n.querySelector("[data-name=Denied]").textContent) > 0)`)
		b.eval(`import("./store.js").then(({store, refresh}) => { // five minutes pass
			const wave = (i, f) => Math.max(0, f * (1 + Math.sin(i / 9) * 0.4 + Math.sin(i / 3.7) * 0.2 + (i % 11 === 0) * 0.7));
			const c = store.curves;
			for (let i = 0; i < 140; i++) c.rate.unshift(wave(i, 22)), c.p95.unshift(i % 40 === 3 ? null : wave(i, 21));
			for (const [id, a] of store.activity) for (let i = 0; i < 140; i++) a.unshift(wave(i + id.length * 7, id.includes("weather") ? 9 : 2));
			const now = Date.now();
			for (let i = 1; i < 300; i++) if (i % 80 > 6) store.history.points.unshift({ time: new Date(now - 10_000 * i).toISOString(), calls: Math.round(wave(i, 220)), denied: i > 100 && i < 140 ? 60 : 3, errors: i % 17 ? 0 : 20, tool_errors: 8, latency: { p50_ms: wave(i, 4), p95_ms: wave(i, 21) }, memory_bytes: 41e6 + 4e4 * i % 9e6, in_flight: Math.round(wave(i, 3)) });
			refresh();
			return 0;
		})`)
		b.await(`document.querySelector(".tile .line").getAttribute("d").split("L").length > 100 && document.querySelector(".chart .bars").getAttribute("d").split("M").length > 30 && [...document.querySelectorAll(".chart .line")].every((n) => n.getAttribute("d").split("L").length > 20)`)
		// The curve ends at the current value, although the latest minute has no sample.
		for _, tile := range []string{"In flight", "Memory"} {
			if got := b.eval(`[...document.querySelectorAll(".tile")].find((n) => n.innerText.includes("` + tile +
				`")).querySelector(".line").getAttribute("d").split("M").at(-1).split("L").length`); got < "3" {
				t.Errorf("%s: what is now stands apart from the curve", tile)
			}
		}
		b.shoot("overview-light")
		b.look(1280, 1400, "light")
		b.shoot("overview-1280")
		b.look(1280, 1400, "dark")
		b.shoot("overview-dark")
		b.phone("light", "overview-phone")
	})
	t.Run("extensions", func(t *testing.T) {
		b.t = t
		b.eval(`location.hash = "#/extensions"`)
		b.await(`document.querySelectorAll(".extensions-view tbody tr").length === 25`)
		b.shoot("extensions-light")
		b.eval(`location.hash = "#/extensions/weather00"`)
		b.await(`(() => { const past = document.querySelector(".hours"); return !past.hidden && past.querySelector(".bars").getAttribute("d").includes("M") && past.querySelector("svg").getAttribute("aria-label").includes("calls in the last 6 hours"); })()`)
		b.shoot("extension-hours")
		b.eval(`location.hash = "#/extensions/github"`)
		b.await(`document.querySelector(".details").innerText.includes("panic: nil map in handler")`)
		b.shoot("extension-failed")
		b.look(1280, 800, "light")
		b.await(`document.querySelector(".scroll").scrollWidth <= document.querySelector(".scroll").clientWidth`)
		b.look(1440, 900, "light")
		b.press("Escape", "")
		b.await(`document.querySelector(".details").hidden`)
		b.eval(`location.hash = "#/extensions/search02"`)
		button := func(label string) string {
			return `[...document.querySelectorAll(".details .actions button")].find((n) => n.textContent === "` +
				label + `")`
		}
		b.await(button("Disable"))
		b.eval(button("Disable") + `.click()`)
		b.await(button("Really disable?"))
		b.eval(button("Really disable?") + `.click()`)
		b.await(button("Enable") + ` && document.querySelector(".details .badge").textContent === "disabled"`)
		b.shoot("extension-disabled")
		b.eval(button("Enable") + `.click()`)
		b.await(button("Disable") + ` && document.querySelector(".details .badge").textContent === "idle"`)
		b.press("Escape", "")
		b.await(`document.querySelector(".details").hidden`)
		b.press("/", "")
		b.await(`document.activeElement === document.querySelector("input[type=search]")`)
		b.do("Input.insertText", object{"text": "weather0 idle"}, nil)
		b.await(`document.querySelectorAll(".extensions-view tbody tr").length < 6 && location.hash.endsWith("?q=weather0+idle")`)
		b.press("ArrowDown", "")
		b.await(`document.activeElement.matches("tbody a")`)
		b.shoot("extensions-keyboard")
		b.phone("dark", "extensions-phone-dark")
	})
	t.Run("sorted", func(t *testing.T) {
		b.t = t
		b.eval(`location.hash = "#/extensions?q=weather"`)
		b.await(`document.querySelector("input[type=search]").value === "weather"`)
		head := `[...document.querySelectorAll(".extensions-view thead th")].find((n) => n.innerText.startsWith("Extension"))`
		first := `document.querySelector(".extensions-view tbody th a").textContent`
		for _, want := range [][2]string{{"ascending", "weather00"}, {"descending", "weather16"}} {
			b.eval(head + `.querySelector("button").click()`)
			b.await(fmt.Sprintf(`%s.getAttribute("aria-sort") === %q && %s === %q`, head, want[0], first, want[1]))
		}
		b.shoot("extensions-sorted")
		b.open(url + "#/extensions?q=weather&sort=-extension") // as somebody who was sent the address
		b.await(first + ` === "weather16"`)
		b.eval(`document.querySelector(".extensions-view tbody th a").click()`)
		b.await(`location.hash === "#/extensions/weather16?q=weather&sort=-extension"`)
		b.eval(`document.querySelector(".details .close").click()`)
		b.await(`location.hash === "#/extensions?q=weather&sort=-extension"`)
		b.eval(head + `.querySelector("button").click()`)
		b.await(head + `.getAttribute("aria-sort") === null && location.hash === "#/extensions?q=weather"`)
	})
	t.Run("a thousand tools", func(t *testing.T) {
		b.t = t
		b.eval(`location.hash = "#/tools"`)
		b.await(`document.querySelectorAll(".catalog tbody tr").length === 1007`)
		b.shoot("tools-light")
		b.do("Input.insertText", object{"text": ""}, nil)
		b.eval(`document.querySelector("input[type=search]").focus()`)
		b.do("Input.insertText", object{"text": "mail19 tool_4"}, nil)
		b.await(`document.querySelectorAll(".catalog tbody tr").length === 10`)
		b.eval(`location.hash = "#/tools/ext_kit_say"`)
		call := `document.querySelector(".details .actions button")`
		b.await(call + ` && document.querySelector(".details textarea[aria-label=Arguments]")`)
		b.eval(`document.querySelector(".details textarea[aria-label=Arguments]").value = '{"n": 12345678901234567890}', ` + call +
			`.click()`)
		b.await(call + `.textContent === "Really call it?"`)
		b.eval(call + `.click()`)
		b.await(`document.querySelector(".details pre[aria-label=Answer]").textContent.includes("12345678901234567890")`)
		if c := h.Admin().Calls(1)[0]; c.Tool != "ext_kit_say" || c.Caller != clienttoken.Operator {
			t.Errorf("the page has called %+v", c)
		}
		b.shoot("tool-called")
		b.eval(`location.hash = "#/tools/ext_evil_say"`)
		b.await(`document.querySelector(".details").innerText.includes("<b>bold</b>")`)
		b.shoot("tool-hostile")
	})
	t.Run("arguments", func(t *testing.T) {
		b.t = t
		field := func(name string) string {
			return `[...document.querySelectorAll(".details .field")].find((n) => n.querySelector("b").textContent === "` +
				name + `").querySelector("select,input,textarea")`
		}
		raw := `document.querySelector(".details textarea[aria-label=Arguments]")`
		call := func() {
			t.Helper()
			button := `document.querySelector(".details .actions button")`
			b.eval(button + `.click()`)
			b.await(button + `.textContent === "Really call it?"`)
			b.eval(button + `.click()`)
		}
		b.await(field("loud") + `.value === "true" && ` + raw + `.hidden`)
		b.eval(field("text") + `.value = "<b>\"two\nlines\"", ` + field("n") + `.value = "12345678901234567890", ` +
			field("mode") + `.value = "7", ` + field("more") + `.value = "[1,"`)
		call()
		b.await(`document.querySelector(".toasts").innerText.includes("more: ") && ` + field("more") +
			`.matches("[aria-invalid]")`)
		b.eval(field("more") + `.value = "[1, 2]"`)
		b.eval(`document.activeElement.blur()`)
		b.press("r", "r")
		const want = "{\n  \"text\": \"<b>\\\"two\\nlines\\\"\",\n  \"loud\": true,\n  \"mode\": 7,\n" +
			"  \"more\": [1, 2],\n  \"n\": 12345678901234567890\n}"
		b.await(`!` + raw + `.hidden && ` + raw + `.value === ` + fmt.Sprintf("%q", want))
		b.eval(raw + `.value = ` + raw + `.value.replace("true", "false").replace("[1, 2]", "{}")`)
		b.press("r", "r")
		b.await(raw + `.hidden && ` + field("loud") + `.value === "false" && ` + field("n") +
			`.value === "12345678901234567890" && ` + field("more") + `.value === "{}"`)
		b.shoot("tool-fields")
		b.phone("dark", "tool-fields-phone")
		b.eval(field("more") + `.value = ""`)
		call()
		b.await(`document.querySelector(".details pre[aria-label=Answer]").textContent.includes("<i>x</i>")`)
		b.press("r", "r")
		b.eval(raw + `.value = '{"text": "x", "unknown": 1}'`)
		b.press("r", "r")
		b.await(`document.querySelector(".toasts").innerText.includes("unknown: the schema has no such argument")`)
	})
	t.Run("calls", func(t *testing.T) {
		b.t = t
		b.eval(`location.hash = "#/calls"`)
		b.await(`document.querySelectorAll(".calls-table tbody tr").length >= 60`)
		b.await(`document.querySelector(".calls-table").innerText.includes("child exited") || document.querySelector(".calls-table").innerText.includes("rejected")`)
		b.shoot("calls-light")
		b.eval(`[...document.querySelectorAll(".calls-table tbody tr")].findLast((n) => n.innerText.includes("ext_evil_say")).querySelector("a").click()`)
		b.await(`document.querySelector(".details pre[aria-label=Request]").textContent.includes("<script>window.hit=2") && document.querySelector(".details pre[aria-label=Result]").textContent.includes("<i>x</i>")`)
		b.look(1280, 900, "dark")
		b.shoot("call-dark")
		b.phone("light", "call-phone")
		b.eval(`document.querySelector(".details .close").click()`)
		b.await(`document.querySelector(".details").hidden`)
		b.phone("light", "calls-phone")
		b.eval(`import("./calls.js").then(({ calls }) => {
			const view = calls(() => {});
			view.update({ calls: [], status: { questions: [{ method: "elicitation/create", tool: "ext_kit_say", client: "<b>x</b>\nroot waits\u001b" }] } }, { query: "", params: new URLSearchParams() });
			document.body.append(view.node);
			window.asked = view.node;
		})`)
		b.await(`asked.querySelector(".waiting").innerText.includes("<b>x</b> root waits\\u{1b}")`) // in one line
		b.eval(`asked.remove()`)
		b.open(url + "#/calls") // with the calls from before the page was opened
		b.await(`document.querySelectorAll(".calls-table tbody tr").length >= 60`)
	})
	t.Run("wire", func(t *testing.T) {
		b.t = t
		b.eval(`location.hash = "#/wire/kit"`)
		b.await(`document.querySelector(".bar select").value === "kit"`)
		b.await(`performance.getEntriesByType("resource").length >= 0 && document.querySelectorAll(".wire li").length === 0`)
		eventually(t, func() bool { // the tap is open
			call("ext_kit_say")
			return b.eval(`document.querySelectorAll(".wire li").length > 0`) == "true"
		})
		b.eval(`document.querySelector(".wire summary").click()`)
		// Further frames may be above that frame by now.
		b.await(`[...document.querySelectorAll(".wire pre")].some((n) => n.textContent.length > 0)`)
		b.shoot("wire-light")
		b.phone("dark", "wire-phone-dark")
	})
	t.Run("recordings", func(t *testing.T) {
		b.t = t
		b.look(1280, 900, "light")
		b.eval(`location.hash = "#/recordings"`)
		press := func(label string) {
			b.eval(`[...document.querySelectorAll(".calls-view button")].find((n) => n.textContent === "` + label +
				`" && !n.disabled).click()`)
		}
		press("Record")
		b.await(`document.querySelector(".bar .total").textContent.startsWith("recording, ")`)
		call("ext_kit_say", "ext_kit_grumble", "ext_evil_say")
		press("Stop")
		b.await(`document.querySelector(".bar .total").textContent.includes(" records") && document.querySelector(".steps tbody").innerText.includes("tools/call say") && document.querySelector(".steps tbody").innerText.includes("result of tools/call say")`)
		b.eval(`[...document.querySelectorAll(".steps th a")].find((n) => n.textContent === "tools/call say").click()`)
		b.await(`document.querySelector(".calls-view .details").innerText.includes("to the extension") && document.querySelector("pre[aria-label=Record]").textContent.includes('"say"')`)
		b.shoot("recordings-light")
		b.phone("dark", "recordings-phone-dark")
		b.look(1280, 900, "dark")
		b.eval(`[...document.querySelectorAll(".calls-view .details a")].find((n) => n.textContent === "the response").click()`)
		b.await(`document.querySelector(".calls-view .details h2").textContent === "result of tools/call say"`)
		b.shoot("recordings-dark")
		at := b.eval(`location.hash`)
		press("Next")
		b.await(`location.hash !== ` + at + ` && !document.querySelector(".calls-view .details").hidden`)
		open := func(text string) {
			b.eval(`(() => { const files = new DataTransfer(); files.items.add(new File([` + text +
				`], "c.jsonl")); const input = document.querySelector("input[type=file]"); input.files = files.files; input.dispatchEvent(new Event("change")); return 0; })()`)
		}
		open(`'{"cassette":1,"host":"x","begun":"2026-01-01T00:00:00Z"}\n{"at":1,"run":1,"start":{"extension":"<img src=x onerror=window.hit=9>"}}\n{"at":2,"run":1,"sent":{"id":1,"method":"a/b"}}\n{"at":9002,"run":1,"of":"x,\\"y","received":{"id":1,"result":{"n":12345678901234567890}}}\n'`)
		b.await(`document.querySelectorAll(".steps tbody tr").length === 3 && document.querySelector(".steps tbody").innerText.includes("result of a/b") && document.querySelector(".steps tbody").innerText.includes("<img")`)
		b.eval(`location.hash = "#/recordings/2"`)
		b.await(`document.querySelector("pre[aria-label=Record]").textContent.includes("12345678901234567890")`)
		open(`'{"cassette":9}\n'`)
		b.await(`document.body.innerText.includes("this is no cassette")`)
	})
	t.Run("logs", func(t *testing.T) {
		b.t = t
		b.eval(`location.hash = "#/logs"`)
		b.await(`document.querySelector(".log").innerText.includes("onerror=window.hit=3") && document.querySelector(".log").innerText.includes("\\u202etxt")`)
		b.shoot("logs-light")
		b.eval(`location.hash = "#/logs?ext=evil"`)
		b.await(`[...document.querySelectorAll(".log .who")].every((n) => n.textContent === "evil")`)
	})
	t.Run("governance", func(t *testing.T) {
		b.t = t
		b.eval(`location.hash = "#/governance"`)
		b.await(`document.querySelectorAll(".policy").length === 3 && document.querySelectorAll(".denials tbody tr").length >= 1`)
		b.shoot("governance-light")
		b.eval(`document.querySelector(".denials td a").click()`)
		b.await(`document.querySelector(".explained").innerText.includes("no_dying request, content: deny")`)
		b.eval(`document.querySelector("input[aria-label=Tool]").value = "ext_kit_die", [...document.querySelectorAll(".panel .actions button")].find((n) => n.textContent === "Test").click()`)
		b.await(`document.querySelector(".result").innerText.includes("no_dying request, content: deny")`)
		b.await(`(() => { const choices = [...document.querySelectorAll(".field select option")].map((n) => n.textContent); return choices.includes("no_dying") && choices.includes("an entry to paste"); })()`)
		dry := func(policy string) {
			b.eval(fmt.Sprintf(`(() => { const input = [...document.querySelectorAll(".field")].find((n) => n.innerText.startsWith("Policy")).querySelector("select"); input.value = %q; input.dispatchEvent(new Event("change")); [...document.querySelectorAll(".panel .actions button")].find((n) => n.textContent === "Dry run").click(); return 0; })()`, policy))
		}
		dry("no_dying")
		b.await(`document.querySelectorAll(".rehearsed tbody tr").length === 1 && document.querySelector(".rehearsed").innerText.includes("ext_kit_die") && document.querySelector(".rehearsed").innerText.includes("denied")`)
		b.eval(`[...document.querySelectorAll(".rehearsed")].forEach((n) => n.scrollIntoView())`)
		b.shoot("governance-dry-run")
		b.eval(`(() => { const input = [...document.querySelectorAll(".field")].find((n) => n.innerText.startsWith("Calls")).querySelector("select"); input.value = "recording"; return 0; })()`)
		dry("no_dying")
		b.await(`[...document.querySelectorAll(".panel .result")].some((n) => n.innerText.includes("No call of a tool is in an open recording"))`)
		b.eval(`import("./recordings.js").then(({ recordings }) => {
			const node = recordings(() => {}).node, files = new DataTransfer(), input = node.querySelector("input[type=file]");
			files.items.add(new File(['{"cassette":1,"host":"x","begun":"2026-01-01T00:00:00Z"}\n{"at":1,"run":1,"start":{"extension":"kit"}}\n{"at":2,"run":1,"sent":{"id":1,"method":"tools/call","params":{"name":"die","arguments":{"n":12345678901234567890}}}}\n'], "c.jsonl"));
			input.files = files.files;
			input.dispatchEvent(new Event("change"));
			return 0;
		})`)
		eventually(t, func() bool {
			return b.eval(`import("./recordings.js").then(({ recordedCalls }) => recordedCalls(9).length === 1 && recordedCalls(9)[0].includes("12345678901234567890"))`) == "true"
		})
		dry("no_dying")
		b.await(`document.querySelectorAll(".rehearsed tbody tr").length === 1 && document.querySelector(".rehearsed a").hash.startsWith("#/recordings/")`)
		b.eval(`(() => { const input = [...document.querySelectorAll(".field")].find((n) => n.innerText.startsWith("Calls")).querySelector("select"); input.value = ""; return 0; })()`)
		dry("")
		b.await(`[...document.querySelectorAll(".panel .result .reason")].some((n) => n.textContent.includes("all pass unchanged"))`)
		b.eval(`import("./rehearsal.js").then(({ rehearsal }) => {
			window.dry = rehearsal();
			const of = (...names) => dry.update({ status: { policies: names.map((name) => ({ name })) } }), list = dry.node.querySelector("select");
			of("one");
			window.chosen = [list.value];
			list.value = "";
			list.dispatchEvent(new Event("change"));
			of("one", "two");
			chosen.push(list.value, list.options.length, dry.node.querySelector("textarea").closest(".field").hidden);
			return 0;
		})`)
		b.await(`JSON.stringify(window.chosen) === '["one","",3,false]'`) // new policies do not close an entry
		b.await(`document.querySelectorAll(".audit tbody tr").length > 0 || document.querySelector(".governance").innerText.includes("No audit log is kept")`)
		b.look(1280, 1700, "dark")
		b.shoot("governance-dark")
		b.phone("light", "governance-phone")
		b.look(1440, 900, "light")
	})
	t.Run("approvals", func(t *testing.T) {
		b.t = t
		for sent, want := range map[string]string{
			`{"n": 12345678901234567890, "n": -1.50e3, "o": { }}`: `{"n":12345678901234567890,"n":-1.50e3,"o":{}}`,
			`["\u0072m, \"{x", [1]]`:                              `["rm, \"{x",[1]]`,
			`{"cut": "of`:                                         `{"cut": "of`,
		} {
			var shown string
			text := b.eval(fmt.Sprintf(`import("./format.js").then(({json}) => json(%q))`, sent))
			if err := json.Unmarshal([]byte(text), &shown); err != nil || shown != want {
				t.Errorf("%s is shown as %s, %v", sent, text, err)
			}
		}
		b.eval(`location.hash = "#/approvals"`)
		b.await(`document.querySelectorAll(".card").length === 3 && document.querySelector(".approvals").innerText.includes("rm -r build")`)
		b.shoot("approvals-light")
		b.phone("dark", "approvals-phone-dark")
		b.look(1440, 900, "dark")
		b.shoot("approvals-dark")
		program := `[...document.querySelectorAll(".card")].find((n) => n.innerText.includes("stranger"))`
		b.await(program + `.innerText.includes("gets the secrets TOKEN") && ` + program + `.innerText.includes("window.hit=1")`)
		b.eval(program + `.querySelector("button").click()`)
		b.await(program + `.querySelector("button").textContent === "Really run it?"`)
		b.eval(program + `.querySelector("button").click()`)
		b.await(`!` + program + ` && document.querySelectorAll(".card").length === 2`)
		b.eval(`[...document.querySelectorAll(".card")].find((n) => n.innerText.includes("rm -r build")).querySelector("button[data-tone=good]").click()`)
		get(t, waiting[0], "the approved call")
		b.await(`document.querySelectorAll(".card").length === 1`)
		b.eval(`document.querySelector(".card button[data-tone=bad]").click()`)
		get(t, waiting[1], "the denied call")
		b.await(`document.querySelectorAll(".card").length === 0`)
		if got := h.Status().ApprovalRequests; got != 0 {
			t.Errorf("%d approval requests are left", got)
		}
		// Requests that wait at other nodes, as the stream tells them, and a node whose requests are missing.
		b.eval(`import("./store.js").then(({ store, refresh }) => {
			const since = new Date().toISOString(), expires = new Date(Date.now() + 60_000).toISOString();
			const one = (id, more) => ({ id, caller: "ada", tool: "ext_notes_delete", method: "tools/call", policy: "ask-first", reason: "deleted is deleted", arguments: "{}", since, expires, waiting: true, desk: "gpu1", ...more });
			store.approvals = [one("gpu1/1.aa", { asked_in: "form 1.0" }), one("gpu1/2.bb", { desk_only: true })];
			store.silent = [{ node: "laptop", reason: "no answer within 2s" }];
			refresh();
			return 0;
		})`)
		b.await(`document.querySelectorAll(".card").length === 2 && document.querySelectorAll(".card button").length === 2 && document.querySelector(".approvals").innerText.includes("waits at node gpu1") && document.querySelector(".approvals").innerText.includes("asked in form 1.0 too; the first answer counts") && document.querySelector(".approvals").innerText.includes("name this node in cluster.operators there") && document.querySelector(".approvals").innerText.includes("Requests of node laptop")`)
		b.shoot("approvals-of-nodes")
		b.eval(`import("./store.js").then(({ store, refresh }) => { store.approvals = []; store.silent = []; refresh(); return 0; })`)
	})
	t.Run("host", func(t *testing.T) {
		b.t = t
		attached, end := context.WithCancel(t.Context())
		defer end()
		if err := h.Attach(attached,
			&protocol.Session{
				ID:         "s1",
				Caller:     "ada",
				Toolset:    "talk",
				Version:    "2025-11-25",
				ClientInfo: json.RawMessage(`{"name":"<b>agent</b>","version":"2"}`),
			}); err != nil {
			t.Fatal(err)
		}
		b.eval(`location.hash = "#/host"`)
		b.await(`document.querySelector(".clients:not(.nodes) tbody").innerText.includes("<b>agent</b> 2") && document.querySelector(".clients:not(.nodes) tbody").innerText.includes("legacy")`)
		b.await(`(() => { const rows = [...document.querySelectorAll(".nodes tbody tr")].map((n) => n.innerText); return rows.length === 2 && rows[0].includes("search (replicas), notes") && rows[1].includes("away for 1") && rows[1].includes("<script>"); })()`)
		b.eval(`import("./cluster.js").then(({ cluster }) => {
			window.panel = cluster();
			panel.update({ name: "main", node: "web", server: "x", nodes: [{ name: "gpu1", state: "ready", since: new Date().toISOString(), shares: [], tools: 1, approvals: 2, calls_out: 0, calls_in: 0, failed: 0 }] });
			return 0;
		})`)
		b.await(`panel.node.querySelector("td[data-name=Approvals] a").textContent === "2 waiting"`)
		b.await(`document.querySelector(".host-view").innerText.includes("main: this is web, 3 nodes, over tls://hub.example:7822 (400 µs, TLS)")`)
		b.await(`document.querySelector("pre[aria-label=Configuration]").textContent.includes("search_paths:")`)
		b.eval(`[...document.querySelectorAll(".actions button")].find((n) => n.textContent === "Show changes").click()`)
		b.await(`document.querySelector("pre[aria-label='Outcome of the reload']").textContent === "retried: github"`)
		b.eval(`[...document.querySelectorAll(".actions button")].find((n) => n.textContent === "Do not watch").click()`)
		b.await(`document.querySelector(".watch").textContent.includes("does not look for changes")`)
		b.look(1280, 1200, "light")
		b.shoot("host-light")
		b.look(1280, 1200, "dark")
		b.shoot("host-dark")
		b.phone("dark", "host-phone-dark")
		b.look(1280, 1200, "light")
		b.eval(`document.querySelector(".clients:not(.nodes) th a").click()`)
		b.await(`(() => { const seen = document.querySelector(".host-view .details").innerText; return seen.includes("ext_kit_say") && seen.includes("talk") && !seen.includes("_fail") && !seen.includes("ext_notes"); })()`)
		b.shoot("host-client-light")
		b.phone("dark", "host-client-phone-dark")
		b.look(1280, 1200, "dark")
		b.shoot("host-client-dark")
		b.eval(`document.querySelector(".host-view .details .close").click()`)
		b.await(`document.querySelector(".host-view .details").hidden`)
	})
	t.Run("access", func(t *testing.T) { testAccess(t, b, files) })
	t.Run("every view", func(t *testing.T) {
		b.t = t
		for _, view := range []string{"overview", "extensions/github", "tools/ext_kit_say", "calls/1", "wire",
			"recordings", "logs", "governance", "approvals", "host", "access/toolset/talk"} {
			b.eval(`location.hash = "#/` + view + `"`)
			b.await(`document.querySelector("h1").textContent.toLowerCase() === "` + strings.Split(view, "/")[0] + `"`)
			if view == "calls/1" {
				b.await(`[...document.querySelectorAll(".timeline tr")].some((n) => n.innerText.includes("instance"))`)
			}
			if bad := b.eval(`[...document.querySelectorAll("th")].filter((n) => !n.textContent.trim()).length + [...document.querySelectorAll("pre")].filter((n) => n.tabIndex !== 0).length`); bad != "0" {
				t.Errorf("%s: %s headers are empty or blocks out of reach for the keyboard", view, bad)
			}
		}
	})
	b.t = t
	if got := b.eval(`String(window.hit)`); got != `"undefined"` {
		t.Errorf("a text of an extension has run: %s", got)
	}
	if got := b.eval(`document.querySelectorAll("img:not([src='icon.svg']), main script, main b b").length`); got !=
		"0" {
		t.Errorf("a text of an extension became %s elements", got)
	}
	if len(b.said) > 0 {
		t.Errorf("the page complains: %s", strings.Join(b.said, "\n"))
	}
}

// crash kills the process of an extension and waits for the next one.
func crash(t *testing.T, h *exthost.Host, id string) {
	t.Helper()
	pid := func() int {
		for _, x := range h.Status().Extensions {
			if x.ID == id && x.State == "ready" && len(x.Instances) > 0 {
				return x.Instances[0].PID
			}
		}
		return 0
	}
	eventually(t, func() bool { return pid() != 0 })
	before := pid()
	child, err := os.FindProcess(before)
	if err == nil {
		err = child.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return pid() != 0 && pid() != before })
}

// An empty host shows how to add an extension.
func TestDashboardOfAnEmptyHost(t *testing.T) {
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{t.TempDir()}
	h := openHost(t, cfg, exthost.Options{})
	addr := serve(t, Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "operators-own"}, nil)
	b := openBrowser(t)
	b.look(1440, 900, "light")
	b.open("http://" + addr + "/ui/#token=operators-own")
	b.await(`document.querySelector(".phase").textContent === "live" && document.querySelector(".overview").innerText.includes("exthost init NAME")`)
	if got := b.eval(`[...document.querySelectorAll(".chart, .tile .line[d^=M]")].filter((n) => n.getClientRects().length).length`); got > "2" {
		t.Errorf("%s charts and curves of a host without extensions, want at most those of what is in flight and of "+
			"memory", got)
	}
	b.shoot("empty-overview")
	for _, view := range []string{"extensions", "tools", "calls", "wire", "logs", "governance", "approvals", "host",
		"access"} {
		b.eval(`location.hash = "#/` + view + `"`)
		b.await(`document.querySelector("main .empty:not([hidden])") !== null && ![...document.querySelectorAll("main :is(table, .log)")].some((n) => n.getClientRects().length)`)
		b.shoot("empty-" + view)
	}
	if len(b.said) > 0 {
		t.Errorf("the page complains: %s", strings.Join(b.said, "\n"))
	}
}

// The errors of one file are one problem, even if its earlier version runs; consecutive failing calls are a problem;
// a past fault can be dismissed.
func TestDashboardOfFaults(t *testing.T) {
	dir := t.TempDir()
	const works = "[plugin]\nid = \"works\"\nversion = \"1.0.0\"\n[transport]\nkind = \"exec\"\ncommand = " +
		"\"false\"\n[[tools]]\nname = \"fail\"\ndescription = \"Fails.\"\ncommand = [\"false\"]\n"
	writeManifest(t, dir, "works", works)
	writeManifest(t, dir, "never", "[plugin]\nid = \"never\"\nversoin = \"1.0.0\"\n[transport]\ncomand = \"sh\"\n")
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	h := openHost(t, cfg, exthost.Options{})
	addr := serve(t, Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "operators-own"}, nil)
	writeManifest(t, dir, "works", strings.Replace(works, "version", "versoin", 1))
	if _, err := h.Admin().Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := h.Call(t.Context(), "ext_works_fail", nil); err == nil {
			t.Fatal("false succeeds")
		}
	}
	b := openBrowser(t)
	b.look(1440, 900, "light")
	b.open("http://" + addr + "/ui/#token=operators-own")
	row := func(words ...string) string {
		text := `(n) => true`
		for _, word := range words {
			text += fmt.Sprintf(` && n.innerText.includes(%q)`, word)
		}
		return `[...document.querySelectorAll(".trouble")].filter(` + text + `)`
	}
	b.await(row("manifest invalid", "never", "plugin.toml:3:1", "plugin.toml:5:1", "did you mean") + `.length === 1`)
	b.await(row("manifest invalid", "works", "versoin", "The build before it runs.") + `.length === 1`)
	b.await(row("manifest invalid") + `.length === 2`)
	b.await(row("calls fail", "ext_works_fail: exit status 1", "3 calls in a row",
		"exthost logs works") + `.length === 1`)
	b.shoot("faults")
	b.eval(row("calls fail") + `[0].querySelector("button").focus()`)
	b.press("Enter", "\r")
	b.await(row("calls fail") + `.length === 0`)
	_, _ = h.Call(t.Context(), "ext_works_fail", nil) // a new fault is shown
	b.await(row("calls fail", "4 calls in a row") + `.length === 1`)
	if len(b.said) > 0 {
		t.Errorf("the page complains: %s", strings.Join(b.said, "\n"))
	}
}

// A policy without a process can fail too: while no record can be written, no request passes.
func TestDashboardOfAnAuditLogThatCannotBeWritten(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{t.TempDir()}
	writeManifest(t, cfg.Extensions.SearchPaths[0], "kit", kit)
	cfg.Audit.Path = filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.Symlink("/dev/full", cfg.Audit.Path); err != nil {
		t.Fatal(err)
	}
	h, err := exthost.Open(t.Context(), cfg,
		exthost.Options{StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() }) // the loss of records is an error
	addr := serve(t, Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "operators-own"}, nil)
	_, _ = h.Call(t.Context(), "ext_kit_say", nil) // the first record fails
	b := openBrowser(t)
	b.open("http://" + addr + "/ui/#token=operators-own")
	b.await(`[...document.querySelectorAll(".trouble")].some((n) => n.innerText.includes("audit_log") && n.innerText.includes("no space left") && n.innerText.includes("make room"))`)
	b.await(`(({ innerText, dataset }) => dataset.tone === "bad" && innerText === document.title.replace(" · exthost", ""))(document.querySelector(".verdict"))`)
	b.await(`document.title.startsWith("NO CALL PASSES: the audit log cannot be written: ") && document.title.includes("make room or access for")`)
	b.shoot("no-call-passes")
}

// TestDashboardWithoutToken enters a wrong token, then the right one.
func TestDashboardWithoutToken(t *testing.T) {
	h := openKit(t, exthost.Options{})
	addr := serve(t, Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "operators-own", Token: "clients"}, nil)
	b := openBrowser(t)
	b.look(1000, 700, "light")
	b.open("http://" + addr + "/ui")
	b.await(`document.querySelector(".lock").innerText.includes("exthost serve")`)
	b.shoot("locked")
	b.eval(`document.querySelector(".lock input").value = "clients", setTimeout(() => document.querySelector(".lock button").click()), 0`)
	b.await(`document.querySelector(".lock").innerText.includes("does not take this token")`)
	b.eval(`document.querySelector(".lock input").value = "operators-own", setTimeout(() => document.querySelector(".lock button").click()), 0`)
	b.await(`document.querySelector(".phase").textContent === "live"`)
}

// TestDashboardComesBack checks that the page reconnects after its stream breaks.
func TestDashboardComesBack(t *testing.T) {
	h := openKit(t, exthost.Options{})
	stop := make(chan struct{})
	var cut, down atomic.Bool
	admin := Admin(h, nil)
	flaky := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/events") && cut.CompareAndSwap(false, true) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go func() {
				select {
				case <-stop:
					cancel()
				case <-ctx.Done():
				}
			}()
			r = r.WithContext(ctx)
		}
		admin.ServeHTTP(w, r)
	})
	addr := serve(t, Options{Backend: h, Admin: flaky, OperatorToken: "operators-own"}, nil)
	b := openBrowser(t)
	b.open("http://" + addr + "/ui/#token=operators-own")
	b.await(`document.querySelectorAll(".extensions tbody tr").length === 2`)
	b.eval(`window.phases = [], new MutationObserver(() => phases.push(document.querySelector(".phase").textContent)).observe(document.querySelector(".phase"), {childList: true, characterData: true, subtree: true}), 0`)
	close(stop)
	b.await(`phases.some((p) => p.startsWith("connection lost")) && document.querySelector(".phase").textContent === "live"`)
	down.Store(true) // while the page changes the level of the log
	b.eval(`import("./store.js").then(({setLevel}) => { setLevel("debug"); return 0; })`)
	b.await(`document.querySelector(".phase").textContent.startsWith("connection lost")`)
	down.Store(false)
	b.await(`document.querySelector(".phase").textContent === "live"`)
}

// frozenWriter drops what is written while it is frozen.
type frozenWriter struct {
	http.ResponseWriter
	frozen *atomic.Bool
}

// Write implements [io.Writer].
func (w frozenWriter) Write(b []byte) (int, error) {
	if w.frozen.Load() {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w frozenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A host whose connections stay open, but whose status does not come, is called frozen until one comes.
func TestDashboardOfAFrozenHost(t *testing.T) {
	h := openKit(t, exthost.Options{})
	var frozen atomic.Bool
	admin := Admin(h, nil)
	freezes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admin.ServeHTTP(frozenWriter{w, &frozen}, r)
	})
	addr := serve(t, Options{Backend: h, Admin: freezes, OperatorToken: "operators-own"}, nil)
	b := openBrowser(t)
	b.open("http://" + addr + "/ui/#token=operators-own")
	b.await(`document.querySelector(".phase").textContent === "live" && document.title.startsWith("DEGRADED: extension lost")`)
	frozen.Store(true)
	b.await(`document.querySelector(".phase").textContent === "frozen" && document.title.startsWith("NO CALL PASSES: the host is frozen")`)
	b.await(`(({ hidden, innerText, dataset }) => !hidden && dataset.tone === "bad" && innerText.includes("due every 2 s") && innerText.includes("exthost status"))(document.querySelector(".verdict"))`)
	b.shoot("frozen")
	frozen.Store(false)
	b.await(`document.querySelector(".phase").textContent === "live" && document.title.startsWith("DEGRADED: extension lost") && document.querySelector(".verdict").dataset.tone !== "bad"`)
}

// Addresses of unknown items show a message.
func TestDashboardOfWhatIsNotThere(t *testing.T) {
	h := openKit(t, exthost.Options{})
	addr := serve(t, Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "operators-own"}, nil)
	b := openBrowser(t)
	b.open("http://" + addr + "/ui/#token=operators-own")
	b.await(`document.querySelectorAll(".extensions tbody tr").length === 2`)
	b.eval(`location.hash = "#/extensions/%"`)
	b.await(`document.querySelectorAll(".extensions-view tbody tr").length === 2`)
	if len(b.said) > 0 {
		t.Errorf("the page complains: %s", strings.Join(b.said, "\n"))
	}
	b.eval(`location.hash = "#/governance/nothing"`)
	b.await(`!document.querySelector(".explained").hidden && document.querySelector(".explained").innerText.includes("there is no decision")`)
}

// A restarted host has another token: an open page asks for it, keeps its content, and continues with the new token.
func TestDashboardAsksForTheNewToken(t *testing.T) {
	h := openKit(t, exthost.Options{})
	var started atomic.Bool // restarted
	handler := func(token string) http.Handler {
		s := New(Options{Backend: h, Admin: Admin(h, nil), OperatorToken: token})
		t.Cleanup(s.endStreams)
		return s.newAuthenticator(s.routes)
	}
	first, second := handler("first-token"), handler("second-token")
	ended, restart := context.WithCancel(t.Context())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if started.Load() {
			second.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ended, cancel)()
		first.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	b := openBrowser(t)
	b.look(1280, 900, "light")
	b.open(web.URL + "/ui/#token=first-token")
	b.await(`document.querySelector(".phase").textContent === "live" && document.querySelectorAll(".extensions tbody tr").length === 2`)
	b.eval(`window.same = true, location.hash = "#/extensions/kit"`)
	started.Store(true)
	restart()
	b.await(`document.querySelector("dialog.ask[open] input") && document.querySelector(".phase").textContent.includes("token")`)
	b.shoot("asks-for-token")
	b.phone("dark", "asks-for-token-phone-dark")
	enter := func(token string) {
		b.eval(`document.querySelector("dialog.ask input").value = "` + token +
			`", document.querySelector("dialog.ask button").click()`)
	}
	enter("wrong")
	b.await(`document.querySelector("dialog.ask[open] input").value === ""`)
	enter("second-token")
	b.await(`!document.querySelector("dialog") && document.querySelector(".phase").textContent === "live"`)
	if got := b.eval(`String(window.same) + location.hash`); got != `"true#/extensions/kit"` {
		t.Errorf("the page is another one: %s", got)
	}
}
