package httpserver

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed ui
var pages embed.FS

// policy lets the dashboard's pages load their own files and ask this server, and
// nothing else: what extensions say could become a script in no way, and no other
// page can frame them.
var policy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
	"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
}, "; ")

// dashboard serves the dashboard's pages below /ui/. They hold no data.
func dashboard() http.Handler {
	files, err := fs.Sub(pages, "ui")
	if err != nil {
		panic(err) // the name is a constant
	}
	serve := http.StripPrefix("/ui/", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		if path.Ext(r.URL.Path) == ".js" {
			h.Set("Content-Type", "text/javascript; charset=utf-8") // whatever the system takes it for
		}
		serve.ServeHTTP(w, r)
	})
}
