package httpserver

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// dashboardFiles are the static pages of the dashboard.
//
//go:embed ui
var dashboardFiles embed.FS

// dashboardPolicy is the Content-Security-Policy of the pages: they load only their own files and call only their own
// server, no text of an extension can run as a script, and no page may frame them.
var dashboardPolicy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
	"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
	"trusted-types 'none'",
}, "; ")

// dashboardHandler serves the static pages of the operator's dashboard below /ui/. Their scripts call the operator's
// API.
func dashboardHandler() http.Handler {
	files, err := fs.Sub(dashboardFiles, "ui")
	if err != nil {
		panic(err) // the name is a constant
	}
	serve := http.StripPrefix("/ui/", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", dashboardPolicy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		if path.Ext(r.URL.Path) == ".js" {
			h.Set("Content-Type", "text/javascript; charset=utf-8") // the system's MIME table may differ
		}
		serve.ServeHTTP(w, r)
	})
}
