// The style sheet has dark colors for this class, and none that follow the system by themselves.
const system = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", system.matches);
follow();
system.addEventListener("change", follow);

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  // Of many routes it draws only those that are in view; the groups are few, and give the overview.
  docExpansion: "none",
  displayRequestDuration: true,
  validatorUrl: null,
});
