// Pocketbase is PocketBase as a Go program uses it, with a collection for
// plants and one user who may create them. It takes PocketBase's own command
// line. When it is about to serve, it prints the user's token as one line.
//
// It is a module of its own, so that PocketBase runs on the versions of its
// dependencies that it was released with.
package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/pocketbase/pocketbase"
	"github.com/pocketbase/pocketbase/core"
	"github.com/pocketbase/pocketbase/tools/types"
)

func main() {
	app := pocketbase.New()
	app.OnServe().BindFunc(func(e *core.ServeEvent) error {
		e.InstallerFunc = nil // it would open a browser
		if err := addPlants(e.App); err != nil {
			return err
		}
		token, err := userToken(e.App)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, token)
		return e.Next()
	})
	if err := app.Start(); err != nil {
		slog.Error("pocketbase", "error", err)
		os.Exit(1) //nolint:forbidigo // it is main
	}
}

// addPlants makes the collection that every user may add to. Its own ids are
// texts of 15 characters, so the plant's number is a field with an index.
func addPlants(app core.App) error {
	plants := core.NewBaseCollection("plants")
	plants.CreateRule = types.Pointer(`@request.auth.id != ""`)
	plants.Fields.Add(
		&core.NumberField{Name: "pid", Required: true, OnlyInt: true},
		&core.TextField{Name: "name", Required: true},
		&core.TextField{Name: "tag"},
	)
	plants.AddIndex("idx_plants_pid", true, "pid", "")
	return app.Save(plants)
}

// userToken makes a user in PocketBase's own collection of them, and a token
// as it gets one when it logs in.
func userToken(app core.App) (string, error) {
	users, err := app.FindCollectionByNameOrId("users")
	if err != nil {
		return "", err
	}
	user := core.NewRecord(users)
	user.SetEmail("measuring@plants.example")
	user.SetRandomPassword()
	if err := app.Save(user); err != nil {
		return "", err
	}
	return user.NewAuthToken()
}
