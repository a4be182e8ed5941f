package httpserver

import (
	"net/http"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// extensionOperations are about extensions.
var extensionOperations = []operation{
	{method: "GET", path: "/extensions", summary: "The extensions, those that do not run included",
		answer: extensionList{}, handle: (*admin).extensions},
	{method: "GET", path: "/extensions/{id}", summary: "One extension",
		answer: status.Extension{}, handle: (*admin).extension},
	{method: "POST", path: "/extensions/{id}/restart", summary: "Replace the processes of an extension, or of policy:NAME, and forget its failures; answered once it can be called again",
		handle: (*admin).restart},
	{method: "POST", path: "/extensions/{id}/disable", summary: "Stop an extension, now and from now on; calls in flight may end first",
		handle: (*admin).disable},
	{method: "POST", path: "/extensions/{id}/enable", summary: "Let an extension run again that is disabled, now and from now on",
		handle: (*admin).enable},
}

// extensionList is what /extensions answers.
type extensionList struct {
	Extensions []status.Extension `json:"extensions"`
}

func (a *admin) extensions(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, extensionList{a.host.Admin().Status().Extensions})
}

func (a *admin) extension(w http.ResponseWriter, r *http.Request) error {
	for _, x := range a.host.Admin().Status().Extensions {
		if x.ID == r.PathValue("id") {
			return writeJSON(w, http.StatusOK, x)
		}
	}
	return protocol.Errorf(protocol.ToolNotFound, "there is no extension %q", r.PathValue("id"))
}

func (a *admin) restart(w http.ResponseWriter, r *http.Request) error {
	return done(w, a.host.Admin().Restart(r.Context(), r.PathValue("id")))
}

func (a *admin) enable(w http.ResponseWriter, r *http.Request) error {
	return done(w, a.host.Admin().Enable(r.Context(), r.PathValue("id")))
}

func (a *admin) disable(w http.ResponseWriter, r *http.Request) error {
	return done(w, a.host.Admin().Disable(r.Context(), r.PathValue("id")))
}
