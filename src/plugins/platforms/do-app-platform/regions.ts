/** Regions of registries by region of apps; they are not named alike. */
const REGISTRY_REGIONS: Readonly<Record<string, string>> = {
  nyc: "nyc3",
  atl: "nyc3",
  tor: "nyc3",
  sfo: "sfo3",
  ams: "ams3",
  fra: "fra1",
  lon: "fra1",
  blr: "blr1",
  sgp: "sgp1",
  syd: "syd1",
};

export function registryRegion(appRegion: string): string {
  return REGISTRY_REGIONS[appRegion] ?? "nyc3";
}

/** The region of apps that matches the name of a data center, such as nyc3. */
export function appRegionMeant(region: string): string {
  return region.replace(/\d+$/, "");
}
