// Package toolsets contains a toolset of five real servers, exthost.yaml, for a loop that works on one repository, one
// project and one folder. The test says what it saves.
package toolsets
