package httpserver

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// Text never becomes markup or script.
func TestDashboardPagesAreStrict(t *testing.T) {
	risky := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setTimeout\("|DOMParser|srcdoc|javascript:| style="|<script(>| [^>]*>[^<])|\bon\w+="`)
	err := fs.WalkDir(dashboardFiles, "ui", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := dashboardFiles.ReadFile(path)
		if found := risky.Find(data); found != nil {
			t.Errorf("%s has %q", path, found)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, page := range []string{"", "app.js", "style.css", "icon.svg"} {
		w := httptest.NewRecorder()
		dashboardHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/"+page, nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Security-Policy") != dashboardPolicy ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", page, w.Code, w.Header())
		}
	}
	if strings.Contains(dashboardPolicy, "unsafe") || strings.Contains(dashboardPolicy, "*") {
		t.Error(dashboardPolicy)
	}
}
