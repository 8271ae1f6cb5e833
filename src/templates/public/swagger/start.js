SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  // Of many routes it draws only those that are in view; the groups are few, and give the overview.
  docExpansion: "none",
  displayRequestDuration: true,
  validatorUrl: null,
});
