package httpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// axe returns the text of axe-core, which .ci/peers installs. It skips the test if that has not been done.
func axe(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EXTHOST_PEERS")
	if dir == "" {
		t.Skip("SKIPPED: install axe-core with .ci/peers DIR, and set EXTHOST_PEERS to DIR")
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// accessible fails for each rule of axe-core that the page breaks as it is.
func (b *browser) accessible(name string) {
	b.t.Helper()
	found := b.eval(`axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? n.all[0]?.message ?? "")).join(" | ")))`)
	var broken []string
	if err := json.Unmarshal([]byte(found), &broken); err != nil {
		b.t.Fatal(err)
	}
	for _, rule := range broken {
		b.t.Errorf("%s: %s", name, rule)
	}
}

// tabThrough types Tab until the focus has left the page: each control has to get it, in the order of the page, and
// show it.
func (b *browser) tabThrough(name string) {
	b.t.Helper()
	const most = 400
	b.eval(`document.querySelector(".skip").focus(), window.reached = [document.activeElement], 0`)
	for n := 0; ; n++ {
		b.press("Tab", "")
		if b.eval(`(() => { const at = document.activeElement; if (at === document.body || reached.includes(at)) return "left"; reached.push(at); return ""; })()`) == `"left"` {
			break
		}
		if n == most {
			b.t.Errorf("%s: the focus does not leave the page", name)
			return
		}
	}
	if got := b.eval(`(() => {
		const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter((n) => n.tabIndex >= 0 && !n.disabled && n.checkVisibility({ visibilityProperty: true }));
		const missed = all.filter((n) => !reached.includes(n)), order = reached.filter((n) => all.includes(n)), hidden = order.filter((n) => { n.focus({ focusVisible: true }); return getComputedStyle(n).outlineStyle === "none"; });
		const sorted = order.every((n, i) => i === 0 || order[i - 1].compareDocumentPosition(n) & Node.DOCUMENT_POSITION_FOLLOWING);
		return [...missed.map((n) => "out of reach: " + n.outerHTML.slice(0, 100)), ...hidden.map((n) => "shows no focus: " + n.outerHTML.slice(0, 100)), ...(sorted ? [] : ["not in the order of the page"])].join("\n");
	})()`); got != `""` {
		b.t.Errorf("%s: of %s controls:\n%s", name, b.eval("reached.length"), got)
	}
}

// TestDashboardIsAccessible judges every view by axe-core, at three widths, light and dark, and goes through it by the
// keyboard alone.
func TestDashboardIsAccessible(t *testing.T) {
	script := axe(t)
	url, h, files := serveFleet(t)
	api := strings.TrimSuffix(url, "/ui/") + apiRoot
	own := authorization("Bearer operators-own")
	for _, tool := range []string{"ext_kit_say", "ext_kit_die", "ext_kit_grumble", "ext_evil_say"} {
		_, _ = h.Call(t.Context(), tool, map[string]string{"text": hostile})
	}
	add := send(t, http.MethodPost, api+"/clients/ada/add", own, bound(t, files.file(), `"toolset":"talk"`))
	if add.StatusCode != http.StatusOK {
		t.Fatal(add.Status)
	}
	b := openBrowser(t)
	b.do("Page.setBypassCSP", object{"enabled": true}, nil) // axe-core is no script of this page
	b.look(1440, 900, "light")
	b.open(url + "#token=operators-own")
	b.await(`document.querySelector(".phase")?.textContent === "live" && document.querySelectorAll(".trouble").length >= 2`)
	b.eval(script + "\n;0")
	ask, asked := context.WithCancel(t.Context())
	waiting := make(chan struct{})
	go func() { defer close(waiting); _, _ = h.Call(ask, "ext_kit_fail", nil) }()
	defer func() {
		asked()
		get(t, waiting, "the end of the call that was asked about")
	}()
	views := []struct{ address, ready string }{
		{"overview", `document.querySelectorAll(".calls li").length >= 4`},
		{"extensions?q=kit", `document.querySelectorAll(".extensions-view tbody tr").length === 1`},
		{"extensions/github", `!document.querySelector(".details").hidden`},
		{"tools?q=kit", `document.querySelectorAll(".catalog tbody tr").length === 5`},
		{"tools/ext_evil_say?q=evil", `document.querySelector(".details textarea")`},
		{"calls", `document.querySelectorAll(".calls-table tbody tr").length >= 4`},
		{"calls/1", `document.querySelector(".timeline")`},
		{"wire/kit", `document.querySelector(".bar select").value === "kit"`},
		{"recordings", `document.querySelector(".calls-view .empty:not([hidden])")`},
		{"logs", `document.querySelector(".log li")`},
		{"governance", `document.querySelectorAll(".policy").length === 3`},
		{"approvals", `document.querySelectorAll(".card").length >= 2`},
		{"host", `document.querySelector("pre[aria-label=Configuration]").textContent.includes("search_paths")`},
		{"access", `document.querySelector(".named tbody tr")`},
		{"access/client/ada", `document.querySelector(".edit")`},
		{"access/new-client", `document.querySelector(".edit")`},
		{"access/toolset/talk", `document.querySelectorAll(".preview li").length === 4`},
		{"access/toolset/talk", `(document.querySelector(".shape") || document.querySelector(".preview li:nth-child(3) button").click(), document.querySelector(".arg select"))`},
	}
	visit := func(address, ready string) {
		t.Helper()
		b.eval(fmt.Sprintf("location.hash = %q", "#/"+address))
		b.await(`document.querySelector("h1").textContent.toLowerCase() === "` + strings.FieldsFunc(address,
			func(r rune) bool { return r == '/' || r == '?' })[0] + `" && ` + ready)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{1440, 1024, 390} {
			b.look(width, 900, scheme)
			for _, v := range views {
				visit(v.address, v.ready)
				name := fmt.Sprintf("%s at %d px, %s", v.address, width, scheme)
				b.accessible(name)
				if b.eval(`document.documentElement.scrollWidth <= innerWidth`) != "true" {
					t.Errorf("%s: the page is wider", name)
				}
				b.shoot(strings.NewReplacer("/", "-", "?", "-", " px, ", "-", " ", "-").Replace("axe-" + name))
				if scheme == "light" && width != 1024 {
					b.tabThrough(name)
				}
			}
		}
	}
	b.look(1440, 900, "light")
	b.eval(`document.activeElement.blur()`)
	b.press("?", "?")
	b.await(`document.querySelector("dialog[open]")`)
	b.accessible("the keys")
	b.press("Escape", "")
	b.await(`!document.querySelector("dialog")`)
	visit("access/toolset/talk", `document.querySelector(".edit")`)
	b.eval(`document.activeElement.blur()`)
	b.press("Escape", "")
	b.await(`document.querySelector(".details").hidden && location.hash === "#/access"`)
}
