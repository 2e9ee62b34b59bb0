// The chosen theme, before the page is drawn. Without a choice, that of the system.
try {
  const theme = localStorage.getItem('theme')
  if (theme) document.documentElement.dataset.theme = theme
} catch {} // a browser can refuse to store data
