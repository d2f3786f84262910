-- The identity, for the second look; empty where there is none.
return (identity()) or ''
