// Pocketbase runs PocketBase through its Go module, with a collection of plants and a user who may create them. It has
// PocketBase's command line. Before it serves, it prints the user's token on a line.
//
// It is a separate module, so that PocketBase has the versions of its dependencies that its release names.
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
		e.InstallerFunc = nil // the installer would open a browser
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
		os.Exit(1) //nolint:forbidigo // the exit code of main
	}
}

// addPlants creates the collection; every user may create records in it. Record ids are texts of 15 characters, so the
// plant's id is a field with a unique index.
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

// userToken creates a user in PocketBase's collection of users and returns the token of a login.
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
