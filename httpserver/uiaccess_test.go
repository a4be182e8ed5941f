package httpserver

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// testAccess adds a client and edits a toolset on the page, with the errors beside their fields.
func testAccess(t *testing.T, b *browser, files *desk) {
	b.t = t
	b.look(1440, 900, "light")
	field := func(label string) string {
		return `[...document.querySelectorAll(".field")].find((n) => n.querySelector("label").textContent === "` + label + `")`
	}
	press := func(label string) {
		t.Helper()
		b.await(`[...document.querySelectorAll(".edit button")].some((n) => n.textContent === "` + label + `" && !n.hidden && !n.disabled)`)
		b.eval(`[...document.querySelectorAll(".edit button")].find((n) => n.textContent === "` + label + `").click()`)
	}
	fill := func(label, value string) {
		t.Helper()
		b.eval(fmt.Sprintf(`(() => { const input = %s.querySelector("input,select,textarea"); input.value = %q; input.dispatchEvent(new Event("input", { bubbles: true })); return 0; })()`, field(label), value))
	}
	b.eval(`location.hash = "#/access"`)
	b.await(`document.querySelector(".toolsets tbody").innerText.includes("ext_kit_*") && document.querySelector(".access-view .empty:not([hidden])").innerText.includes("No client has a name")`)
	b.shoot("access-light")

	b.eval(`[...document.querySelectorAll(".extra a")].find((n) => n.textContent === "add a client").click()`)
	b.await(`document.activeElement === ` + field("Name") + `.querySelector("input")`)
	press("Add")
	b.await(field("Name") + `.querySelector(".wrong").textContent.includes("is empty") && ` + field("Name") + `.querySelector("[aria-invalid]")`)
	b.do("Input.insertText", object{"text": "ada"}, nil)
	fill("Toolset", "talk")
	fill("Scope", "metrics")
	press("Add")
	b.await(field("Scope") + `.querySelector(".wrong").textContent.includes("leave out toolset, mode and approves")`)
	b.shoot("access-refused")
	fill("Scope", "")
	press("Add")
	b.await(`document.querySelector("pre[aria-label='Settings with the token']").textContent.includes("Bearer exthost_") && document.querySelector(".edit").innerText.includes("It is the first")`)
	b.shoot("access-token")
	b.phone("dark", "access-token-phone-dark")
	press("Done")
	b.await(`document.querySelector(".access-view .details").hidden && document.querySelector(".named tbody").innerText.includes("ada") && document.querySelector(".named tbody").innerText.includes("toolset talk")`)

	b.eval(`[...document.querySelectorAll(".toolsets a")].find((n) => n.textContent === "talk").click()`)
	b.await(`document.querySelector(".edit h3.summary").textContent.includes("4 before: 0 more, 0 no longer") && document.querySelectorAll(".preview li").length === 4`)
	fill("Include", "ext_kit_say\next_weathre00_*\next_evil_say")
	b.await(`document.querySelector(".edit h3.summary").textContent === "Shows 2 tools, 4 before: 1 more, 3 no longer" && ` + field("Include") + `.querySelector(".wrong").innerText.includes("take ext_weather00_*")`)
	b.shoot("access-toolset")
	b.look(1280, 1200, "dark")
	b.shoot("access-toolset-dark")
	b.phone("light", "access-toolset-phone")
	b.eval(field("Include") + `.querySelector(".wrong button").click()`)
	b.await(`document.querySelector(".edit h3.summary").textContent.startsWith("Shows 52 tools") && ` + field("Include") + `.querySelector("textarea").value.includes("ext_weather00_*")`)
	text, err := os.ReadFile(files.file())
	if err == nil {
		err = os.WriteFile(files.file(), append(text, "# by another\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	press("Save and reload")
	b.await(`document.querySelector(".edit > .reason").textContent.includes("has changed since it was shown")`)
	b.shoot("access-changed")
	b.eval(`document.querySelector(".details .close").click()`)
	b.await(`document.querySelector(".access-view .details").hidden`)
	b.eval(`location.hash = "#/overview"`) // the files are read again
	b.await(`document.querySelector("h1").textContent === "Overview"`)
	b.eval(`location.hash = "#/access/toolset/talk"`)
	b.await(`!document.querySelector(".access-view .details").hidden`)
	b.eval(`location.hash = "#/overview"`)
	b.await(`document.querySelector("h1").textContent === "Overview"`)
	b.eval(`location.hash = "#/access"`) // which has no form
	b.await(`document.querySelector("h1").textContent === "Access" && document.querySelector(".access-view .details").hidden`)
	b.eval(`location.hash = "#/access/toolset/talk"`)
	b.await(`!document.querySelector(".access-view .details").hidden && document.querySelector(".edit h3.summary").textContent.includes("4 before")`)
	fill("Exclude", "*_fail\n*_die")
	b.await(`document.querySelector(".edit h3.summary").textContent.includes("1 no longer")`)
	press("Save and reload")
	b.await(`document.querySelector(".toasts").innerText.includes("Save and reload: done") && document.querySelector(".toolsets tbody").innerText.includes("*_die")`)
	text, _ = os.ReadFile(files.file())
	if !strings.Contains(string(text), "- ext_kit_* # all of it\n    exclude: [\"*_fail\", '*_die']\n    tools:") ||
		!strings.HasPrefix(string(text), "# mine\n") {
		t.Errorf("the file is\n%s", text)
	}

	testShapes(b, files, press, fill)

	b.eval(`location.hash = "#/access/client/ada"`)
	press("Remove")
	press("Really remove it?")
	b.await(`!document.querySelector(".named tbody tr") && document.querySelector(".access-view .details").hidden`)
	b.said = slices.DeleteFunc(b.said, func(text string) bool { // about the edits that had to be refused
		return strings.Contains(text, "Failed to load resource") && strings.Contains(text, apiRoot)
	})
}

// testShapes fixes an argument of a tool of the toolset talk, whose form is open: the schema that clients see is shown
// before and after, what is wrong stands beside it, and the file keeps the rest.
func testShapes(b *browser, files *desk, press func(string), fill func(label, value string)) {
	b.t.Helper()
	b.await(`document.querySelectorAll(".preview li").length === 3`)
	b.eval(`[...document.querySelectorAll(".preview li")].find((n) => n.innerText.includes("ext_kit_place")).querySelector("button").click()`)
	b.await(`document.querySelector(".arg select") && document.querySelector("pre[aria-label=Before]").textContent.includes("region") && document.querySelector("pre[aria-label=After]").textContent.includes("region")`)
	b.eval(`(() => { const way = document.querySelector(".arg select"); way.value = "fix"; way.dispatchEvent(new Event("change")); return 0; })()`)
	b.eval(`(() => { const value = document.querySelector(".arg textarea"); value.value = "north"; value.dispatchEvent(new Event("input")); return 0; })()`)
	fill("Name", "over there")
	b.await(`document.querySelector(".shapes > .wrong").innerText.includes("is not a tool's name")`)
	b.shoot("access-shape-refused")
	fill("Name", "over_there")
	b.await(`document.querySelector(".shapes > .wrong").innerText === "" && document.querySelector("pre[aria-label=After]").textContent.includes('"over_there"') && !document.querySelector("pre[aria-label=After]").textContent.includes("region") && document.querySelector(".compared").innerText.includes("% less")`)
	b.eval(`document.querySelector(".shape").scrollIntoView()`)
	b.shoot("access-shape")
	b.look(1440, 1400, "dark")
	b.shoot("access-shape-dark")
	b.phone("light", "access-shape-phone")
	press("Save and reload")
	b.await(`!document.querySelector(".shape") && [...document.querySelectorAll(".preview li")].some((n) => n.innerText.includes("ext_kit_place") && n.innerText.includes("shaped"))`)
	text, err := os.ReadFile(files.file())
	want := "    tools: {ext_kit_place: {name: over_there, args: {region: {fix: north}}}, " +
		"ext_kit_say: {describe: Says it aloud.}}\n"
	if err != nil || !strings.Contains(string(text), want) {
		b.t.Errorf("%v, the file is\n%s\nwant in it\n%s", err, text, want)
	}
}
